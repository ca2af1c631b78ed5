package record

import (
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/fault"
)

// Outcomes are what may happen at a point, as history.Fault names it.
var Outcomes = []string{
	OutcomeKill, OutcomeStop, OutcomeCutRequest, OutcomeCutReply, OutcomeDelay,
	Outcome1213, Outcome1205, Outcome1020, OutcomeReadOnly, OutcomePeerKilled,
}

// The outcomes.
const (
	OutcomeKill       = "kill" // kill -9 of the process
	OutcomeStop       = "stop" // SIGSTOP, and SIGCONT later
	OutcomeCutRequest = "cut request"
	OutcomeCutReply   = "cut reply"
	OutcomeDelay      = "delay"
	Outcome1213       = "1213" // a deadlock
	Outcome1205       = "1205" // a lock wait timeout
	Outcome1020       = "1020" // MariaDB: the row has changed since the snapshot
	OutcomeReadOnly   = "read-only"
	OutcomePeerKilled = "peer killed" // kill -9 of the database or the broker
)

// rule says at which points an outcome can happen, and why not at the others.
type rule struct {
	outcomes []string
	at       []fault.Point // nil for every point that code passes
	also     []fault.Point
	why      string
}

// statements are the points at which the next answer of the server may be an error that
// ends the transaction.
var statements = []fault.Point{
	fault.WriterBegun, fault.WriterBusiness, fault.WriterEvent, fault.RelaySelected, fault.RelayLeased, fault.RelayMark,
	fault.ConsumerDedup, fault.ConsumerEffect,
}

var rules = []rule{
	{
		outcomes: []string{OutcomeKill},
		also:     []fault.Point{fault.WriterZombie, fault.ConsumerZombie},
		why:      "a process can die anywhere, also while its COMMIT is under way",
	},
	{
		outcomes: []string{OutcomeStop, OutcomeDelay, OutcomePeerKilled},
		why:      "at a zombie COMMIT the process is gone already, and the server must be there to get it",
	},
	{
		outcomes: []string{OutcomeCutRequest},
		at: []fault.Point{
			fault.WriterBegun, fault.WriterBusiness, fault.WriterCommit, fault.RelaySelected, fault.RelayCommit, fault.RelayPublish,
			fault.RelayConfirmed, fault.RelayMark, fault.ConsumerDelivered, fault.ConsumerDedup, fault.ConsumerCommit, fault.ConsumerAcked,
		},
		why: "elsewhere the process sends nothing next, or what the next point has",
	},
	{
		outcomes: []string{OutcomeCutReply},
		at: []fault.Point{
			fault.WriterBegun, fault.WriterBusiness, fault.WriterEvent, fault.WriterReply, fault.WriterZombie, fault.RelaySelected,
			fault.RelayLeased, fault.RelayReply, fault.RelaySent, fault.RelayMarkReply, fault.ConsumerDedup, fault.ConsumerEffect,
			fault.ConsumerReply, fault.ConsumerZombie,
		},
		why: "elsewhere the process waits for no reply, or has had it",
	},
	{
		outcomes: []string{Outcome1213, Outcome1205, Outcome1020},
		at:       statements,
		why:      "elsewhere no statement of the transaction comes next; a single server doesn't answer COMMIT so",
	},
	{
		outcomes: []string{OutcomeReadOnly},
		at:       slices.Concat(statements, []fault.Point{fault.WriterCommit, fault.RelayCommit, fault.ConsumerCommit}),
		why:      "elsewhere neither a statement nor a COMMIT of the transaction comes next",
	},
}

// Valid reports whether an outcome can happen at a point, and if not, why not.
func Valid(p fault.Point, outcome string) (ok bool, why string) {
	for _, r := range rules {
		if !slices.Contains(r.outcomes, outcome) {
			continue
		}
		ok := slices.Contains(r.also, p) || slices.Contains(r.at, p) || r.at == nil && !p.OnWire()
		if ok {
			return true, ""
		}
		return false, r.why
	}
	return false, "there is no such outcome"
}

// validOn is Valid for a database.
func validOn(p fault.Point, outcome, database string) (ok bool, why string) {
	if outcome == Outcome1020 && database == "mysql" {
		return false, "only MariaDB answers so"
	}
	return Valid(p, outcome)
}

// needsBroker reports whether a cell of the point has a broker: a writer knows none.
func needsBroker(p fault.Point) bool { return !strings.HasPrefix(string(p), "W") }
