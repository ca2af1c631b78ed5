package privileges

// Role is a part of a service that has a database user of its own.
type Role string

// The roles.
const (
	Writer      Role = "writer"       // business code, which writes events beside its own changes
	Relay       Role = "relay"        // claims, publishes and marks
	Consumer    Role = "consumer"     // handles events, and keeps what goes with it
	EventPurger Role = "event-purger" // deletes published events
	DedupPurger Role = "dedup-purger" // deletes old dedup rows
	Operator    Role = "operator"     // people, and outboxgen's commands that mend
	Reader      Role = "reader"       // people, and outboxgen's commands that look
	Migrator    Role = "migrator"     // makes and changes the tables
)

// Roles are all of them.
func Roles() []Role {
	return []Role{Writer, Relay, Consumer, EventPurger, DedupPurger, Operator, Reader, Migrator}
}

// about says what a role does, for a comment.
var about = map[Role]string{
	Writer:      "writes events in the transactions of the business, looks an event up by its id, and reconciles",
	Relay:       "claims events, publishes them and records what became of them",
	Consumer:    "handles events: beside these it needs what its handler does to tables of its own",
	EventPurger: "deletes events that were published long enough ago",
	DedupPurger: "deletes dedup rows that no message can come back for",
	Operator:    "mends by outboxgen's commands: pause, redrive, discard; sees no payload",
	Reader:      "looks, by outboxgen's commands that change nothing; sees no payload",
	Migrator:    "makes our tables and changes them; the view runs as this user, so keep it",
}

// task are the statements by which one of several purgers is elected.
var task = []string{"TakeTask", "TaskHolder", "EndTask"}

// relayStatements are those of every kind of relay.
var relayStatements = []string{
	"RecordFailure", "CountWaiting", "CountDead", "KeepRelayAlive", "EndRelay", "RelayAliveUntil", "LockRelay", "DeleteRelay", "ReadPause",
	"MarkPublished", "SelectUnmarked", "RetryEvent", "BuryEvent",
}

var laneStatements = []string{
	"SelectDueLanes", "LockFreeLanes", "LeaseLanes", "LockLanes", "RenewLanes", "ReleaseLanes", "CountLanes", "AddLanes", "CountRelays",
	"SelectLaneEvents", "SelectUnblockedEvents", "DelayEvents",
}

var rowStatements = []string{"SelectDueEvents", "LeaseEvents", "ReleaseEvents", "RenewLeases"}

var consumerStatements = []string{
	"InsertConsumed", "ForgetConsumed", "CountFailure", "ReadAttempts", "InsertParked", "LockParked", "FailParked", "DeleteParked", "ListParked",
	"CountParked", "SelectRedrive", "TakeRedrive", "EndRedrive", "RecordOperation",
}

// staleStatements are those of `stale: drop`.
var staleStatements = []string{"AddVersion", "LockVersion", "SetVersion"}

// statements are the names of the generated statements that a role runs.
func (m *model) statements(role Role, stale bool) []string {
	var names []string
	switch role {
	case Writer:
		names = append(names, "InsertEvent", "EventState")
	case Relay:
		names = append(names, relayStatements...)
		if m.lanes {
			names = append(names, laneStatements...)
		} else {
			names = append(names, rowStatements...)
		}
		if m.deletes {
			names = append(names, "DeleteFailures")
		}
	case Consumer:
		names = append(names, consumerStatements...)
		if stale {
			names = append(names, staleStatements...)
		}
	case EventPurger:
		names = append(names, task...)
		names = append(names, "SelectOldRelays", "DeleteRelays")
		if !m.deletes {
			names = append(names, "SelectPurgeable", "DeletePublished", "DeleteFailures")
		}
	case DedupPurger:
		names = append(names, task...)
		names = append(names, "SelectConsumed", "DeleteConsumed", "SelectConsumerFailures", "DeleteConsumerFailures")
	case Reader:
		names = append(names, "ConsumedAt", "CountParked")
	}
	return names
}

// mends are the statements of an operator, from internal/ops, with our names in braces.
var mends = []string{
	"INSERT INTO {outbox_pause} (target, operator, reason, paused_at) VALUES (?, ?, ?, ?) ON DUPLICATE KEY UPDATE target = target",
	"DELETE FROM {outbox_pause} WHERE target = ?",
	"INSERT INTO {consumer_redrive} (consumer_name, event_id, operator, requested_at, due_at) VALUES (?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE id = id",
	"DELETE FROM {consumer_redrive} WHERE consumer_name = ? AND event_id = ?",
	"DELETE FROM {parked_event} WHERE consumer_name = ? AND event_id = ?",
	"UPDATE {consumed_event} SET outcome = ? WHERE consumer_name = ? AND event_id = ? AND outcome = ?",
	"INSERT INTO {outbox_audit} (happened_at, operation, operator, consumer_name, event_id, detail) VALUES (?, ?, ?, ?, ?, ?)",
}

var (
	mendsOfLanes = "UPDATE {outbox_event} SET status = ?, attempts = ?, next_attempt_at = ? WHERE event_id = ? AND status = ?"
	mendsOfRows  = "UPDATE {outbox_event} SET status = ?, attempts = ?, available_at = ?, lease_owner = ? WHERE event_id = ? AND status = ?"
)

// extras are what some commands of an operator need beyond that: they are printed as comments.
var extras = []struct {
	what string
	sql  []string
}{
	{"parked redrive --force and reconcile --republish, which copy payloads", []string{
		"SELECT event_id, payload FROM {outbox_event} WHERE event_id = ?",
		"INSERT INTO {consumed_event} (consumer_name, event_id, outcome, consumed_at) VALUES (?, ?, ?, ?)",
		"INSERT INTO {parked_event} (consumer_name, event_id, event_type, kind, reason, attempts, attributes, headers, body, parked_at) " +
			"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE kind = VALUES(kind), reason = VALUES(reason), parked_at = VALUES(parked_at)",
	}},
	{"reconcile --republish, which writes events too", []string{
		"INSERT INTO {outbox_event} (event_id, aggregate_type, aggregate_id, event_type, event_version, schema_version, payload, headers, created_at, available_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	}},
	{"purge of discarded events and of the audit", []string{
		"DELETE FROM {outbox_event} WHERE event_id = ? AND status = ?",
		"DELETE FROM {outbox_failure} WHERE event_id = ?",
		"DELETE FROM {outbox_audit} WHERE happened_at < ? ORDER BY id LIMIT 500",
	}},
}

// hidden are the columns that nobody needs who looks: what is in an event is its business.
var hidden = map[string]bool{"payload": true, "body": true}

// migrations are what a migrator may do to each table and to each view. With CREATE among them a
// server grants them before there is such a table.
var migrations = map[bool][]string{
	false: {"CREATE", "ALTER", "DROP", "INDEX", "SELECT", "INSERT", "UPDATE", "DELETE"},
	true:  {"CREATE", "CREATE VIEW", "SHOW VIEW", "DROP", "SELECT"},
}
