package verify

import (
	"strings"

	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/internal/record"
)

// Experiment is what one run does.
type Experiment struct {
	Point     fault.Point
	Outcome   string // of package record
	Injection string // the id of a required one; empty for a cell alone
	Database  dbserver.Flavor
	Broker    string
	Seed      uint64
}

// ident names the experiment but for its seed.
func (e Experiment) ident() string {
	what := string(e.Point) + "/" + e.Outcome
	if e.Injection != "" {
		what = e.Injection
	}
	return what + "/" + string(e.Database) + "/" + e.Broker
}

// role is who passes the point.
func (e Experiment) role() string {
	switch e.Point[0] {
	case 'W':
		return roleWriter
	case 'R':
		return roleRelay
	default:
		return roleConsumer
	}
}

// statement is a place in a role's conversation with the database.
type statement struct {
	text   string // a part of it
	or     string // of another one that takes its place at times
	commit bool   // the COMMIT of its transaction
}

func (s statement) match(text string) bool {
	return strings.Contains(text, s.text) || s.or != "" && strings.Contains(text, s.or)
}

var (
	begin     = statement{text: "START TRANSACTION"}
	business  = statement{text: "INSERT INTO orders ", or: "UPDATE orders "}
	event     = statement{text: "name: InsertEvent "}
	stock     = statement{text: "UPDATE stock "}
	lockFree  = statement{text: "name: LockFreeLanes "}
	leases    = statement{text: "name: LeaseLanes "}
	lockLanes = statement{text: "name: LockLanes "}
	mark      = statement{text: "name: MarkPublished "}
	dedup     = statement{text: "name: InsertConsumed "}
	effect    = statement{text: "INSERT INTO notification_job "}
)

func (s statement) atCommit() statement { return statement{text: s.text, commit: true} }

// A cut request is that of the statement that comes next after a point; a cut reply, and an error in
// the place of a reply, that of the one that leads to it.
var (
	requestAt = map[fault.Point]statement{
		fault.WriterBegun:       business,
		fault.WriterBusiness:    event,
		fault.WriterCommit:      event.atCommit(),
		fault.RelaySelected:     leases,
		fault.RelayCommit:       leases.atCommit(),
		fault.RelayConfirmed:    lockLanes,
		fault.RelayMark:         mark.atCommit(),
		fault.ConsumerDelivered: dedup,
		fault.ConsumerDedup:     effect,
		fault.ConsumerCommit:    dedup.atCommit(),
	}
	replyAt = map[fault.Point]statement{
		fault.WriterBegun:    begin,
		fault.WriterBusiness: business,
		fault.WriterEvent:    event,
		fault.WriterReply:    event.atCommit(),
		fault.WriterZombie:   event.atCommit(),
		fault.RelaySelected:  lockFree,
		fault.RelayLeased:    leases,
		fault.RelayReply:     leases.atCommit(),
		fault.RelayMarkReply: mark.atCommit(),
		fault.ConsumerDedup:  dedup,
		fault.ConsumerEffect: effect,
		fault.ConsumerReply:  dedup.atCommit(),
		fault.ConsumerZombie: dedup.atCommit(),
	}
	errorAt = map[fault.Point]statement{
		fault.WriterBegun:    business,
		fault.WriterBusiness: event,
		fault.WriterEvent:    stock,
		fault.WriterCommit:   event.atCommit(),
		fault.RelaySelected:  lockFree,
		fault.RelayLeased:    leases,
		fault.RelayCommit:    leases.atCommit(),
		fault.RelayMark:      mark,
		fault.ConsumerDedup:  dedup,
		fault.ConsumerEffect: effect,
		fault.ConsumerCommit: dedup.atCommit(),
	}
)

// serverErrors are the errors in their servers' words.
var serverErrors = map[string]mysqlproxy.ServerError{
	record.Outcome1213: {Number: 1213, State: "40001", RollsBack: true, Message: "Deadlock found when trying to get lock; try restarting transaction"},
	record.Outcome1205: {Number: 1205, State: "HY000", Message: "Lock wait timeout exceeded; try restarting transaction"},
	record.Outcome1020: {Number: 1020, State: "HY000", RollsBack: true, Message: "Record has changed since last read in table 'orders'"},
	record.OutcomeReadOnly: {
		Number: 1290, State: "HY000", Message: "The MySQL server is running with the --read-only option so it cannot execute this statement",
	},
}

// dedupErrors are errors of the dedup row's insert that are no duplicate of the event: another
// constraint's, one that can't be read, a foreign key's, a value's.
var dedupErrors = []mysqlproxy.ServerError{
	{Number: 1062, State: "23000", Message: "Duplicate entry '1' for key 'consumed_event.PRIMARY'"},
	{Number: 1062, State: "23000", Message: "Duplicate entry 'uq_consumed_event_identity' for key 'consumed_event.uq_other'"},
	{Number: 1062, State: "23000", Message: "Duplicate entry"},
	{Number: 1452, State: "23000", Message: "Cannot add or update a child row: a foreign key constraint fails"},
	{Number: 1406, State: "22001", Message: "Data too long for column 'event_id' at row 1"},
}

// brokerPoints are those at which a role waits for the broker next, or has just heard of it.
var brokerPoints = map[fault.Point]bool{
	fault.RelayPublish: true, fault.RelaySent: true, fault.RelayConfirmed: true,
	fault.ConsumerDelivered: true, fault.ConsumerCommitted: true, fault.ConsumerAcked: true,
}

// killsBroker reports whether the peer that is killed is the broker, and not the database.
// Kafka is a library in the parent here, which can't be killed.
func (e Experiment) killsBroker() bool { return brokerPoints[e.Point] && e.Broker != "kafka" }
