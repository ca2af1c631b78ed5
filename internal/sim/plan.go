package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/outboxgen/outboxgen/internal/fault"
)

// Plan is a run.
type Plan struct {
	Seed     uint64
	Rows     bool // ordering: none
	MariaDB  bool
	Requests []Request
	Relays   int           // processes, 1 to 3
	Batch    int           // events a claim
	InFlight int           // batches of a relay
	Latency  time.Duration // the longest way to the database, or to the broker, and back
	Faults   []Fault
	Tell     bool // all that happens, in Result.Steps
}

// Request is a business operation.
type Request struct {
	At        time.Duration // after the begin
	Writer    int
	Aggregate int64
	Also      int64 // another aggregate that it changes without an event; 0 for none
	Careless  bool  // it doesn't look at that change's error
	Repeats   bool  // after Unknown it repeats the transaction, instead of asking first
	Fate      Fate
}

// Fate is what becomes of a request's event.
type Fate int

// The fates.
const (
	Ordinary  Fate = iota
	Fails          // the operation fails after its event was written: a business error
	Rejected       // the broker never takes the event
	Poisoned       // the broker doesn't take the event until everything heals
	Permanent      // consumers give up on the event
	Slotted        // for a while, handlers find another unique key taken
)

// Fault is something that breaks. Which of the fields count depends on the action.
type Fault struct {
	Role   string        // writer-1, relay-2, planner-1, …; empty for any
	Point  fault.Point   // where, at a point of the runtime's
	Op     string        // where, at a request to the database, or PUBLISH to the broker
	Nth    int           // the how manieth passing of it, from 1
	At     time.Duration // when, with neither of them
	Action Action
	For    time.Duration // of what lasts; how far of a clock
}

// Action is how something breaks.
type Action string

// The actions at points.
const (
	Kill  Action = "kill"
	Stop  Action = "stop"
	Error Action = "error"
	Delay Action = "delay"
)

// The actions on requests; those on publishes are the first five.
const (
	CutRequest    Action = "cut request"
	CutReply      Action = "cut reply"
	SilentRequest Action = "black hole before"
	SilentReply   Action = "black hole after"
	Late          Action = "late"
	Deadlock      Action = "1213"
	LockTimeout   Action = "1205"
	Changed       Action = "1020"
	OtherKey      Action = "1062 of another key" // of consumers' dedup rows alone
	BadData       Action = "1366"                // of these, too
)

// The actions at times.
const (
	Restart    Action = "database restart"
	ReadOnly   Action = "read-only"
	Forward    Action = "clock forward"
	Back       Action = "clock back"
	BrokerDown Action = "broker restart"
	Unanswered Action = "broker does not answer"
	LoseAcks   Action = "acknowledgements lost"
	Twice      Action = "delivered twice"
	Redeliver  Action = "delivered again"
	Terminate  Action = "terminate"
	Pause      Action = "pause" // a process is stopped at that time, wherever it is
)

func (f Fault) String() string {
	var b strings.Builder
	switch {
	case f.Point != "":
		fmt.Fprintf(&b, "%s@%s#%d", f.Role, f.Point, f.Nth)
	case f.Op != "":
		fmt.Fprintf(&b, "%s@%s#%d", f.Role, f.Op, f.Nth)
	default:
		fmt.Fprintf(&b, "%s@%v", f.Role, f.At)
	}
	fmt.Fprintf(&b, ": %s", f.Action)
	if f.For > 0 {
		fmt.Fprintf(&b, " %v", f.For)
	}
	return b.String()
}

// errorless are the points at which an error changes nothing.
var errorless = map[fault.Point]bool{
	fault.WriterCommitted: true, fault.RelayOverdue: true, fault.RelayMarked: true,
	fault.ConsumerOverdue: true, fault.ConsumerCommitted: true, fault.ConsumerAcked: true,
}

// PointActions are what may happen at a point.
func PointActions(p fault.Point) []Action {
	switch {
	case p.OnWire():
		return nil
	case errorless[p]:
		return []Action{Kill, Stop, Delay}
	}
	return []Action{Kill, Stop, Error, Delay}
}

const (
	writers = 3

	lease          = 6 * time.Second
	readWait       = 2 * time.Second // the driver's ReadTimeout
	publishTimeout = 2 * time.Second
	poll           = 1500 * time.Millisecond
	backoffMax     = 2 * time.Second
	deadline       = 2*lease + backoffMax
	faultTime      = 25 * time.Second
)

var (
	writerRoles   = []string{"writer-1", "writer-2", "writer-3"}
	relayRoles    = []string{"relay-1", "relay-2", "relay-3"}
	consumerRoles = []string{"planner-1", "planner-2", "report-1"}
	stateRoles    = []string{"state-1", "state-2", "state-3"} // of the rows' package
)

// NewPlan is the plan of a seed.
func NewPlan(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 0x6f7574626f786765))
	p := Plan{
		Seed: seed, Rows: r.IntN(4) == 0, MariaDB: r.IntN(2) == 0,
		Relays: []int{1, 2, 2, 3, 3}[r.IntN(5)],
		Batch:  1 + r.IntN(4), InFlight: 1 + r.IntN(3), Latency: []time.Duration{2, 10, 60}[r.IntN(3)] * time.Millisecond,
	}
	aggregates := 1 + r.IntN(4)
	rush := r.IntN(3) == 0 // many requests at once, which wait for each other
	for range 4 + r.IntN(8) {
		req := Request{
			At:        between(r, 0, faultTime-5*time.Second),
			Writer:    r.IntN(writers),
			Aggregate: int64(1 + r.IntN(aggregates)),
			Repeats:   r.IntN(3) == 0,
		}
		if rush {
			req.At = req.At.Truncate(10*time.Second) + time.Duration(r.Int64N(int64(p.Latency)))
		}
		if rush || r.IntN(4) == 0 {
			req.Also = int64(1 + r.IntN(aggregates))
		}
		if n := r.IntN(30); n >= 1 && n <= int(Slotted) {
			req.Fate = Fate(n)
		}
		p.Requests = append(p.Requests, req)
	}
	if r.IntN(50) == 0 {
		return p // without a fault nothing at all may be repeated
	}
	if r.IntN(20) == 0 { // a relay alone: it may lease again what it still has to mark
		p.Relays = 1
		p.Faults = append(p.Faults,
			Fault{Role: relayRoles[0], Point: fault.RelayConfirmed, Nth: 1 + r.IntN(3), Action: Stop, For: between(r, lease, 2*lease)},
			Fault{Role: relayRoles[0], Op: "LockLanes", Nth: 1 + r.IntN(3), Action: Late, For: between(r, time.Second, readWait)})
	}
	if r.IntN(20) == 0 { // a mark comes when its event is leased again, and is being published
		p.Relays, p.InFlight = 1+r.IntN(2), 2+r.IntN(2)
		role, n := relayRoles[0], 1+r.IntN(2)
		p.Faults = append(p.Faults, Fault{Role: role, Point: fault.RelayOverdue, Nth: n, Action: Delay, For: between(r, lease, lease+3*time.Second)})
		for _, other := range relayRoles[:p.Relays] {
			for nth := range 3 {
				p.Faults = append(p.Faults, Fault{Role: other, Op: "PUBLISH", Nth: n + 1 + nth, Action: SilentReply})
			}
		}
	}
	if r.IntN(20) == 0 { // a service that goes on after a deadlock, and fails in the end
		n := r.IntN(min(4, len(p.Requests)))
		req := &p.Requests[n]
		req.Fate, req.Also, req.Careless = Fails, req.Aggregate+100, true
		p.Faults = append(p.Faults, Fault{Role: writerRoles[req.Writer], Op: "TouchHead", Nth: 1 + r.IntN(4), Action: Deadlock})
	}
	if r.IntN(10) == 0 { // what isn't a duplicate event must not be taken for one
		p.Faults = append(p.Faults, Fault{
			Role: pick(r, consumersOf(p.Rows)), Op: "InsertConsumed", Nth: 1 + r.IntN(4), Action: pick(r, []Action{OtherKey, BadData}),
		})
	}
	if r.IntN(20) == 0 { // a writer has to ask, and that breaks too
		role := pick(r, writerRoles)
		p.Faults = append(p.Faults,
			Fault{Role: role, Op: "COMMIT", Nth: 1 + r.IntN(2), Action: pick(r, []Action{CutRequest, CutReply, Late}), For: between(r, readWait, 2*lease)},
			Fault{Role: role, Op: "ReconcileOrderAccepted", Nth: 1, Action: pick(r, []Action{CutRequest, CutReply, SilentReply, LockTimeout})})
	}
	for range 1 + r.IntN(6) {
		p.Faults = append(p.Faults, newFault(r, p))
	}
	return p
}

func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

var writerOps = []string{"CONNECT", "BEGIN", "TouchHead", "InsertOrder", "InsertEvent", "COMMIT", "COMMIT", "COMMIT", "ReconcileOrderAccepted"}

var laneOps = []string{
	"BEGIN", "SelectDueLanes", "LockFreeLanes", "LeaseLanes", "LockLanes", "RenewLanes", "ReleaseLanes", "CountLanes", "AddLanes",
	"CountRelays", "SelectLaneEvents", "SelectUnblockedEvents", "MarkPublished", "MarkPublished", "DelayEvents", "RetryEvent", "BuryEvent",
	"RecordFailure", "KeepRelayAlive", "EndRelay", "CONNECT", "COMMIT", "COMMIT", "COMMIT", "ROLLBACK",
}

var rowOps = []string{
	"BEGIN", "SelectDueEvents", "LeaseEvents", "MarkPublished", "MarkPublished", "SelectUnmarked", "RetryEvent", "BuryEvent", "ReleaseEvents",
	"RenewLeases", "RecordFailure", "KeepRelayAlive", "EndRelay", "CONNECT", "COMMIT", "COMMIT", "COMMIT", "ROLLBACK",
}

var consumerOps = []string{"CONNECT", "BEGIN", "InsertConsumed", "TakeSlot", "InsertEffect", "COMMIT", "COMMIT", "COMMIT", "CountFailure", "ReadAttempts", "InsertParked", "ROLLBACK"}

func consumersOf(rows bool) []string {
	if rows {
		return stateRoles
	}
	return consumerRoles
}

func newFault(r *rand.Rand, p Plan) Fault {
	relays := relayRoles[:p.Relays]
	duration := func() time.Duration { // now and then longer than a lease
		return between(r, 100*time.Millisecond, []time.Duration{time.Second, 4 * time.Second, 12 * time.Second}[r.IntN(3)])
	}
	group := r.IntN(3)
	role := pick(r, [][]string{writerRoles, relays, consumersOf(p.Rows)}[group])
	switch r.IntN(10) {
	case 0, 1, 2, 3: // at a point
		points := pointsOf("WRC"[group])
		f := Fault{Role: role, Point: pick(r, points), Nth: 1 + r.IntN(3), For: duration()}
		f.Action = pick(r, PointActions(f.Point))
		return f
	case 4, 5, 6: // on a request
		relayOps := laneOps
		if p.Rows {
			relayOps = rowOps
		}
		f := Fault{Role: role, Op: pick(r, [][]string{writerOps, relayOps, consumerOps}[group]), Nth: 1 + r.IntN(4)}
		f.Action = pick(r, []Action{CutRequest, CutReply, CutReply, SilentRequest, SilentReply, Late, Late, Deadlock, LockTimeout, Changed})
		if f.Action == Late {
			f.For = duration()
		}
		return f
	case 7: // on a publish
		f := Fault{Role: pick(r, relays), Op: "PUBLISH", Nth: 1 + r.IntN(4), For: duration()}
		f.Action = pick(r, []Action{CutRequest, CutReply, CutReply, SilentRequest, SilentReply, Late})
		return f
	default:
		f := Fault{At: between(r, time.Second, faultTime-time.Second), For: duration()}
		f.Action = pick(r, []Action{Restart, Restart, ReadOnly, Forward, Forward, Back, BrokerDown, Unanswered, LoseAcks, Twice, Redeliver, Terminate, Pause, Pause})
		switch f.Action {
		case Terminate:
			f.Role = pick(r, append(slices.Clip(relays), consumersOf(p.Rows)...))
		case Pause:
			f.Role = role
		case Forward:
			f.For *= 3
		}
		return f
	}
}

func pointsOf(initial byte) []fault.Point {
	var out []fault.Point
	for _, p := range fault.Points {
		if p[0] == initial && !p.OnWire() {
			out = append(out, p)
		}
	}
	return out
}
