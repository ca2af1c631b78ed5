package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/outboxgen/outboxgen/internal/fault"
)

// attempt is one transaction for an event: how far it came, and how it ended.
type attempt struct {
	begun    bool // a transaction was there
	entered  bool // the event was handed to the handler, or can't be
	timedOut bool
	poison   error // what made a rollback the only end, or came of the commit
	handling Handling
	err      error
}

var errHandleTimeout = errors.New("the handler has not finished in its time")

// The widths of consumed_version's keys, in bytes.
const (
	maxVersionType = 256
	maxVersionID   = 512
)

var errAggregateTooLong = errors.New("the aggregate's type or id is too long to compare versions by it")

// effect is a handler's method bound to its message.
type effect func(context.Context, *Tx) error

// attempt runs fn in a transaction. ctx is of withTimeout.
func (c *Consumer) attempt(ctx context.Context, fn func(*Tx, *attempt) error) (a attempt) {
	toCommit := false
	_, a.err = InTxWith(fault.In(ctx, fault.Consumer), c.db, c.txOptions(), func(tx *Tx) error {
		a.begun = true
		a.handling = Applied
		defer func() { a.poison = errors.Unwrap(tx.Err()) }()
		if err := fn(tx, &a); err != nil {
			return err
		}
		toCommit = ctx.Err() == nil // database/sql may learn of its end later than the handler
		return ctx.Err()
	})
	if toCommit {
		a.poison = a.err
	}
	switch {
	case a.handling == Duplicate:
		a.err = nil
	case a.err != nil && context.Cause(ctx) == errHandleTimeout: //nolint:errorlint // ours, unwrapped
		a.timedOut = true
		a.err = fmt.Errorf("%w: %w", errHandleTimeout, a.err)
	}
	return a
}

func (c *Consumer) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.cfg.Timeout, errHandleTimeout)
}

func (c *Consumer) txOptions() *sql.TxOptions { return &sql.TxOptions{Isolation: c.cfg.Isolation} }

// apply is the transaction: version, dedup row, effect.
func (c *Consumer) apply(ctx context.Context, tx *Tx, e Envelope, a *attempt, do effect) error {
	if c.spec.DropStale {
		last, err := c.lockVersion(ctx, tx, e)
		if err != nil {
			return err
		}
		if e.AggregateVersion < last {
			a.handling = Skipped
		}
	}
	if err := c.insertDedup(ctx, tx, e.ID.String(), a.handling); err != nil {
		if c.isDuplicate(err) {
			a.handling = Duplicate
		}
		return err
	}
	if err := fault.At(ctx, fault.ConsumerDedup); err != nil {
		return err
	}
	if a.handling == Skipped {
		return nil
	}
	a.entered = true
	err := run(ctx, tx, do)
	if err == nil {
		err = fault.At(ctx, fault.ConsumerEffect)
	}
	if err != nil {
		c.probe(ctx, tx, err)
		return err
	}
	_ = fault.At(ctx, fault.ConsumerOverdue)
	if c.spec.DropStale {
		return c.spec.Inbox.SetVersion(ctx, tx, SetVersionParams{
			Version: e.AggregateVersion, ConsumerName: c.spec.Name,
			AggregateType: []byte(e.AggregateType), AggregateID: []byte(e.AggregateID),
		})
	}
	return nil
}

// run calls the handler. Its panic is an error, so that the attempt counts: the message
// would come back after a crash just the same.
func run(ctx context.Context, tx *Tx, do effect) error {
	return guarded(func() error { return do(ctx, tx) })
}

// probe finds out whether an error of the handler's is the transaction's: what only a
// row's Scan returns, or a prepared statement, passes Tx by. The connection has lost the
// database with it, or refuses everything (package mysqldb).
func (c *Consumer) probe(ctx context.Context, tx *Tx, err error) {
	if fault := c.db.Classify(err).Fault; tx.Err() == nil && (fault == FaultConnection || fault == FaultReadOnly) {
		_, _ = tx.ExecContext(ctx, "DO 1") // its error poisons the transaction
	}
}

// lockVersion returns the version last applied of the event's aggregate, and
// keeps its row locked: events of one aggregate are applied one at a time, in
// however many processes.
func (c *Consumer) lockVersion(ctx context.Context, tx *Tx, e Envelope) (int64, error) {
	typ, id := []byte(e.AggregateType), []byte(e.AggregateID)
	err := c.spec.Inbox.AddVersion(ctx, tx, AddVersionParams{
		ConsumerName: c.spec.Name, AggregateType: typ, AggregateID: id, Version: math.MinInt64,
	})
	if err != nil {
		return 0, err
	}
	return c.spec.Inbox.LockVersion(ctx, tx, LockVersionParams{
		ConsumerName: c.spec.Name, AggregateType: typ, AggregateID: id,
	})
}

func (c *Consumer) insertDedup(ctx context.Context, tx *Tx, eventID string, outcome Handling) error {
	return c.spec.Inbox.InsertConsumed(ctx, tx, InsertConsumedParams{
		ConsumerName: c.spec.Name, EventID: eventID, Outcome: uint8(outcome),
	})
}

// isDuplicate holds for one error only. Another constraint's 1062, an unreadable
// one, or a foreign key's error says nothing about whether the event was applied.
func (c *Consumer) isDuplicate(err error) bool {
	info := c.db.Classify(err)
	return info.Fault == FaultDuplicate && info.Constraint == c.spec.Constraint
}

// kind says whose fault a failed attempt is.
func (c *Consumer) kind(ctx context.Context, a attempt) FailureKind {
	fault := c.db.Classify(a.err).Fault
	switch {
	case ctx.Err() != nil:
		return FailureHeldBack // we are to stop
	case errors.As(a.err, new(*CommitUnknownError)):
		return FailureUnavailable
	case a.begun && !a.entered && (a.timedOut || fault == FaultDeadlock || fault == FaultLockTimeout):
		// The dedup row, or the aggregate's version, is in another transaction's hands.
		return FailureHeldBack
	case !a.entered:
		return FailureUnavailable
	case a.timedOut:
		return FailureFailed
	case a.poison != nil && c.losesDatabase(a.poison):
		return FailureUnavailable
	default:
		// A network error that isn't the transaction's, or a read-only server elsewhere, is
		// the handler's own affair.
		return FailureFailed
	}
}

// losesDatabase holds for what ended a transaction without a doing of the handler's,
// such as a context of its own that ended in the middle of a statement.
func (c *Consumer) losesDatabase(err error) bool {
	if isContextError(err) {
		return false
	}
	fault := c.db.Classify(err).Fault
	return fault == FaultConnection || fault == FaultReadOnly
}
