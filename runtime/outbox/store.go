package outbox

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Store is the outbox table as the relay sees it. Generated code makes one
// (NewStore). Every method may be called from any goroutine.
type Store interface {
	// Claim leases due events to c.Owner and returns them, none when nothing is
	// due. When it returns an error nothing was leased, or what was leased will
	// be due again when its lease ends. Batches that an owner has claimed and not
	// settled share no event; where the store promises an order, they share no
	// aggregate either. A batch without events is none: it is not settled.
	Claim(ctx context.Context, c ClaimRequest) (*Batch, error)

	// Settle records what became of the batch's events, each only if its lease is
	// still the batch's. What was published doesn't depend on the rest: trouble
	// with a failure must not have published events published again. It may be
	// called again with the same arguments after an error. The relay calls it for
	// every batch, also when there is nothing to record.
	Settle(ctx context.Context, b *Batch, outcomes []EventOutcome) (Settlement, error)

	// Renew makes the leases of the batch's unsettled events end a lease's length
	// from now, and returns how many events were still the batch's. Calls for one
	// batch never overlap: a Settle comes after the end of a Renew, and no Renew
	// after a Settle that succeeded.
	Renew(ctx context.Context, b *Batch, lease time.Duration) (int, error)

	// Release tells that the owner has stopped. What it leases and has nothing
	// unsettled of is free at once; the rest is left to the leases' end, for its
	// outcome is unknown.
	Release(ctx context.Context, owner Owner) error

	// Backlog counts what waits.
	Backlog(ctx context.Context) (Backlog, error)
}

// Owner is who holds a lease: one run of one relay.
type Owner struct {
	ID   uuid.UUID // new for every Run
	Host string    // for people
	PID  int       // for people
}

// ClaimRequest asks for a batch.
type ClaimRequest struct {
	Owner    Owner
	Limit    int           // at most so many events
	MaxBytes int           // about so many bytes of payload; one event is always allowed
	Lease    time.Duration // from the database's now

	// Probe says that the broker didn't answer last time, and that this batch is to
	// find out whether it does: no more than it needs should be held back from others.
	Probe bool
}

// Batch is a set of events under one lease.
type Batch struct {
	Owner  Owner
	Token  int64   // with the owner, names this lease among all
	Events []Event // in the order in which they are to be published

	// Ordered says that an aggregate's events must be published in the order given,
	// none while an earlier one may yet be.
	Ordered bool

	// Hold says of a batch without events that none may be claimed: somebody has paused claims.
	Hold *Hold

	// Until is when the lease ends, by this process's clock: rather too early than
	// too late. A store takes it from before the statement that leased; zero stands
	// for the request's Lease from before the claim. The relay reads it once, after
	// the claim, and never writes it: from a renewal that kept any event, relay and
	// store each know a later end, a lease's length after the call began.
	Until time.Time

	// Lease is the store's own, for Settle and Renew.
	Lease any
}

// Hold tells who has paused the claims of all relays, and why: outboxgen pause does
// it, outboxgen resume ends it. What is leased is published and marked all the same.
type Hold struct {
	Operator string
	Reason   string
	Since    time.Time
}

// Event is a claimed row.
type Event struct {
	Key      string // the row's id as it is stored
	Envelope Envelope
	Attempts int // failed attempts so far

	// Repeat is why the event may have been published before, as far as the store can
	// tell: RepeatLeaseExpired when it was claimed from under a lease that had run out and
	// that its owner had not given back, else empty. For metrics alone.
	Repeat RepeatCause

	// Invalid says why the row can't be published at all, such as an id that is
	// not a UUID in a row written by hand; nil for every row of a generated writer.
	// The relay buries it, so that it doesn't hold up the others.
	Invalid error
}

// OutcomeKind is what became of a claimed event.
type OutcomeKind int

// The outcomes.
const (
	// OutcomeUnknown: the broker may have it; it is due again when the batch's lease
	// would end, and no attempt is counted.
	OutcomeUnknown OutcomeKind = iota
	// OutcomePublished: the broker confirmed it.
	OutcomePublished
	// OutcomeReleased: it was not handed to the broker, or certainly not taken. No
	// attempt is counted; it is due after Backoff.
	OutcomeReleased
	// OutcomeRetry: the attempt failed; it is due after Backoff.
	OutcomeRetry
	// OutcomeDead: it will not be tried again.
	OutcomeDead
)

// EventOutcome is the outcome of one event of a batch.
type EventOutcome struct {
	Key     string // the event's
	Kind    OutcomeKind
	Backoff time.Duration // of OutcomeRetry and OutcomeReleased
	Failure FailureKind   // of OutcomeRetry and OutcomeDead
	Reason  string        // of OutcomeRetry and OutcomeDead; never holds payload
}

// Settlement tells what Settle changed.
type Settlement struct {
	Published int
	Released  int
	Retried   int
	Dead      int

	// Lost holds the keys of the events whose lease was no longer the batch's: nothing of
	// them was changed.
	Lost []string
}

// Backlog is what waits in the outbox.
type Backlog struct {
	Waiting   int           // rows neither published nor dead, leased ones among them
	OldestDue time.Duration // how long the longest waiting one has been due; 0 when none is
	Dead      int           // rows that were given up on, until they are redriven
}

// Checker is a Store that can tell whether its database is fit for the promise.
// [NewRelay] asks it.
type Checker interface {
	// Check returns an [*UnfitError] for a database that can't be used. Any other
	// error says that it couldn't be asked.
	Check(ctx context.Context) error
}

// UnfitError says why a database can't be used for an outbox.
type UnfitError struct {
	Reason string // with what to do
}

func (e *UnfitError) Error() string { return "the database can't be used for an outbox: " + e.Reason }

// Waker is a Store that knows when this process has committed events; see [DB.Wake].
type Waker interface {
	// Wakes returns a channel that receives after events were committed, several
	// commits as one, until stop is called.
	Wakes() (wake <-chan struct{}, stop func())
}
