// Package history judges a run with faults: what was done, what was answered, and what
// was there after everything had healed. [Check] holds it against the invariants I1 to I13
// of docs/verification.md. It knows no database and no broker: simulations and real servers fill
// in the same [History].
package history

import (
	"time"

	"github.com/google/uuid"
)

// History is one run. What an experiment doesn't observe stays nil, and the
// invariants that need it are then not judged.
type History struct {
	Requests   []Request  // every try of a business operation
	Business   []Business // the business rows, in the end
	Events     []Event    // the rows of the outbox, in the end
	Written    []Written  // what writers handed over, also of what was rolled back
	Published  []Publish  // every time a message was handed to a publisher, in the order of its answer
	Messages   []Message  // what the broker holds in the end, in its order
	Marks      []Mark     // every settlement of an event that a relay was told of
	Deliveries []Delivery // every time a handler was called
	Acks       []Ack      // every acknowledgement, as seen between consumer and broker
	Dedup      []Dedup    // the dedup rows, in the end
	Effects    []Effect   // what handlers changed, in the end
	Parked     []Parked   // the parked events, in the end
	Answers    []Answer   // what lookups said, and when
	Faults     []Fault    // what really happened, not what was planned
	Delays     []Delay    // how long events waited that no fault touched, beside poisoned ones
	Canaries   []string   // where a private value was seen: "log", "record", …
	Leaks      *Leaks

	Consumers []string      // those that handle every event
	Ordered   bool          // order within an aggregate is promised
	Deadline  time.Duration // in which everything has to be published after healing: 2 × lease + the longest backoff
}

// Outcome is what a writer was told.
type Outcome string

// The outcomes.
const (
	Committed  Outcome = "committed"
	RolledBack Outcome = "rolled back"
	Unknown    Outcome = "unknown"
)

// Request is one try of a business operation: a transaction with one event.
type Request struct {
	ID         string // the same for every try
	EventID    uuid.UUID
	Outcome    Outcome
	Reconciled *bool // after Unknown: whether Reconcile found it; nil while it said "still unknown"
}

// Business is a business row.
type Business struct {
	RequestID string
	EventID   uuid.UUID
}

// Written is an event as the writer had it.
type Written struct {
	EventID   uuid.UUID
	Type      string
	Aggregate string // type and id
	Version   int64
	Payload   []byte
}

// Event is a row of the outbox.
type Event struct {
	ID          uuid.UUID
	Status      string // PENDING, PUBLISHING, PUBLISHED, DEAD
	Attempts    int
	Aggregate   string
	Version     int64
	AvailableAt time.Time
	Rejected    bool // the broker was scripted to refuse it
}

// Publish is a message that was handed to a publisher.
type Publish struct {
	EventID   uuid.UUID
	Aggregate string
	Version   int64
	Relay     string
	Confirmed bool
	Kind      string // of the error, when it isn't confirmed
}

// Message is a message that the broker holds.
type Message struct {
	EventID   uuid.UUID
	Aggregate string
	Version   int64
	Payload   []byte
}

// Mark is a settlement of one event.
type Mark struct {
	EventID uuid.UUID
	Relay   string
	Kind    string // published, retry, dead, released
	Changed bool   // the row changed
	Owned   bool   // by the database's word the relay held the lease at that moment
	Before  string // the status before it
	After   string
}

// Delivery is one call of a handler's transaction.
type Delivery struct {
	EventID  uuid.UUID
	Consumer string
	Result   string // applied, duplicate, skipped, parked, error
}

// Ack is an acknowledgement.
type Ack struct {
	EventID  uuid.UUID
	Consumer string
	Dedup    bool // its dedup row was committed at that moment
}

// Dedup is a dedup row.
type Dedup struct {
	EventID  uuid.UUID
	Consumer string
}

// Effect is how often an event had its effect.
type Effect struct {
	EventID  uuid.UUID
	Consumer string
	Count    int
	Payload  []byte // as the handler got it; nil where that isn't observed
}

// Parked is a parked event.
type Parked struct {
	EventID  uuid.UUID
	Consumer string
}

// Answer is what a lookup by event id said at some time.
type Answer struct {
	EventID uuid.UUID
	State   string // PENDING, PUBLISHING, PUBLISHED, DEAD, or empty for "unknown here"
	Final   bool   // asked after healing
}

// Fault is a fault that happened.
type Fault struct {
	Point   string      // W1 … C9, or a name of the wire's or a server's
	Outcome string      // kill, stop, cut request, cut reply, delay, 1213, 1205, 1020, read-only, peer killed, error
	Events  []uuid.UUID // which it may have touched; nil for any
}

// Delay is how long an event took from its commit.
type Delay struct {
	EventID uuid.UUID
	Took    time.Duration
	Bound   time.Duration
}

// Leaks is what is left when everything has ended.
type Leaks struct {
	Goroutines   int
	Connections  int
	Transactions int
	NotCounted   []string // which of them, by name, could not be counted
}

// Result is what became of an invariant.
type Result string

// The results.
const (
	Pass      Result = "PASS"
	Fail      Result = "FAIL"
	NotJudged Result = "NOT JUDGED" // the experiment doesn't observe what it needs
)

// Verdict is the result of one invariant.
type Verdict struct {
	Invariant string // I1 … I13
	Claim     string // what it says
	Result    Result
	Evidence  []string // what was counted; and the first violations
}
