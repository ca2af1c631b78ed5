package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// ParkedEvent is an event, or a message that isn't one, that a consumer gave up on.
type ParkedEvent struct {
	ID       int64     // of the row; later ones are larger
	EventID  uuid.UUID // of a message that isn't an event: made of its reference or content
	Kind     string    // attempts, permanent, payload, type, version, redelivery or message
	Reason   string
	Attempts int // counted before it was parked, and failed redrives
	ParkedAt time.Time

	// Envelope is the event as it came; of a message that isn't one, or of a row that
	// can't be read any more, its Headers and Data only.
	Envelope Envelope
}

// ErrNotParked is returned by Redrive for an event that isn't parked, or no longer.
var ErrNotParked = errors.New("the event is not parked")

// ErrUnreadable is returned by Redrive for a message that isn't an event: there is
// nothing to hand to a handler.
var ErrUnreadable = errors.New("the parked message is not an event")

// ParkedEvents returns up to limit of the consumer's parked events behind the row
// id after, 0 to begin, in the order in which they were parked.
func (c *Consumer) ParkedEvents(ctx context.Context, after int64, limit int) ([]ParkedEvent, error) {
	rows, err := c.spec.Inbox.ListParked(ctx, c.db, ListParkedParams{
		ConsumerName: c.spec.Name, AfterID: after, Limit: int32(min(max(limit, 1), 10_000)),
	})
	if err != nil {
		return nil, fmt.Errorf("list parked events: %w", err)
	}
	parked := make([]ParkedEvent, len(rows))
	for i, row := range rows {
		parked[i], _ = row.event() // Redrive says what is wrong with one; the others can be listed
	}
	return parked, nil
}

// Redrive hands a parked event to the handler. In one transaction it leaves
// parked_event, its dedup row is written anew and the handler runs: it is applied
// once, however many redrive it at the same time, and when the handler fails it
// stays parked, with the new reason and one attempt more. The error is
// [ErrNotParked], [ErrUnreadable], or a *[HandlingError], in which a
// *[CommitUnknownError] says: look again.
func (c *Consumer) Redrive(ctx context.Context, eventID uuid.UUID) (Handling, error) {
	c.stats.attempts.Add(1)
	seen := c.observe(ctx, Envelope{ID: eventID})
	seen.redrive = true
	redrive := redriving{Consumer: c, eventID: eventID, seen: seen, ctx: ctx}
	end, err := redrive.run(ctx)
	seen.end(redrive.ctx, end, err)
	return end.handling, err
}

// redriving is one call of Redrive.
type redriving struct {
	*Consumer
	eventID uuid.UUID
	parked  ParkedEvent
	seen    *observed
	begun   bool
	ctx     context.Context //nolint:containedctx // the handler's, from Begin on
}

func (r *redriving) run(ctx context.Context) (ending, error) {
	a := r.attempts(ctx, r.apply)
	switch {
	case a.err == nil && a.handling == Duplicate:
		return r.redriven(ctx, r.eventID)
	case a.err == nil:
		return ending{handling: a.handling}, nil
	case !a.entered && (errors.Is(a.err, ErrNotParked) || errors.Is(a.err, ErrUnreadable)):
		return ending{}, a.err
	}
	r.logPanic(ctx, r.eventID, a.err)
	kind, cause, attempts := r.kind(ctx, a), a.err, r.parked.Attempts
	if kind == FailureFailed {
		if err := r.failParked(ctx, r.eventID, cause); err != nil {
			cause = errors.Join(cause, fmt.Errorf("note the failed redrive: %w", err))
		} else {
			attempts++
		}
	}
	return ending{}, r.error(Envelope{ID: r.eventID}, cause, kind, attempts, 0)
}

// apply is the transaction.
func (r *redriving) apply(ctx context.Context, tx *Tx, a *attempt) error {
	row, err := r.unpark(ctx, tx, r.eventID.String())
	if err != nil {
		return err
	}
	if r.parked, err = row.event(); err != nil {
		a.entered = true
		return err
	}
	do, _, err := r.bind(r.parked.Envelope)
	if err != nil {
		a.entered = true
		return err
	}
	r.seen.e = r.parked.Envelope
	if !r.begun { // not again when the transaction is repeated, which has the same ctx
		r.begun = true
		r.ctx = r.seen.begin(ContextWithTrace(ctx, r.parked.Envelope.Headers))
	}
	return r.Consumer.apply(r.ctx, tx, r.parked.Envelope, a, do)
}

// redriven removes a parked event that turns out to be applied: somebody has
// deleted its dedup row, and it came again.
func (c *Consumer) redriven(ctx context.Context, eventID uuid.UUID) (ending, error) {
	err := c.book(ctx, func(ctx context.Context, tx *Tx) error {
		_, err := c.spec.Inbox.DeleteParked(ctx, tx, DeleteParkedParams{ConsumerName: c.spec.Name, EventID: eventID.String()})
		return err
	})
	if err != nil {
		return ending{}, c.notBooked(ctx, Envelope{ID: eventID}, nil, err)
	}
	return ending{handling: Duplicate}, nil
}

func (c *Consumer) failParked(ctx context.Context, eventID uuid.UUID, cause error) error {
	return c.book(ctx, func(ctx context.Context, tx *Tx) error {
		return c.spec.Inbox.FailParked(ctx, tx, FailParkedParams{
			Reason: shorten(reasonOf(c.db, cause), maxParkedReason), ConsumerName: c.spec.Name, EventID: eventID.String(),
		})
	})
}

// unpark locks a parked event's row and removes it and its dedup row.
func (c *Consumer) unpark(ctx context.Context, tx *Tx, eventID string) (ParkedRow, error) {
	row, err := c.spec.Inbox.LockParked(ctx, tx, LockParkedParams{ConsumerName: c.spec.Name, EventID: eventID})
	if errors.Is(err, sql.ErrNoRows) {
		return row, fmt.Errorf("%w: consumer %s, event %s", ErrNotParked, c.spec.Name, eventID)
	}
	if err != nil {
		return row, fmt.Errorf("lock the parked event: %w", err)
	}
	if row.Kind == parkedMessage {
		return row, fmt.Errorf("%w: consumer %s, id %s", ErrUnreadable, c.spec.Name, eventID)
	}
	if _, err := c.spec.Inbox.DeleteParked(ctx, tx, DeleteParkedParams{ConsumerName: c.spec.Name, EventID: eventID}); err != nil {
		return row, fmt.Errorf("delete the parked event: %w", err)
	}
	_, err = c.spec.Inbox.ForgetConsumed(ctx, tx, ForgetConsumedParams{
		ConsumerName: c.spec.Name, EventID: eventID, Outcome: uint8(Parked),
	})
	if err != nil {
		return row, fmt.Errorf("delete the dedup row: %w", err)
	}
	return row, nil
}

// event reads a row back. With an error comes what could be read.
func (r ParkedRow) event() (ParkedEvent, error) {
	p := ParkedEvent{
		ID: r.ID, Kind: r.Kind, Reason: r.Reason, Attempts: int(r.Attempts), ParkedAt: fromMicros(r.ParkedUs),
	}
	p.Envelope.Data = r.Body
	var err error
	if p.EventID, err = ParseEventID(r.EventID); err != nil {
		return p, err
	}
	p.Envelope.ID = p.EventID
	if p.Envelope.Headers, err = stringsOf(r.Headers); err != nil {
		return p, fmt.Errorf("its headers: %w", err)
	}
	if r.Kind == parkedMessage {
		return p, nil
	}
	attributes, err := stringsOf(r.Attributes)
	if err != nil {
		return p, fmt.Errorf("its attributes: %w", err)
	}
	e, err := EnvelopeFromAttributes(func(name string) string { return attributes[name] }, p.Envelope.Headers, r.Body)
	if err != nil {
		return p, err
	}
	p.Envelope = e
	return p, nil
}

// stringsOf reads what jsonObject wrote; nil when it is empty.
func stringsOf(object json.RawMessage) (m map[string]string, err error) {
	if json.Unmarshal(object, &m) != nil {
		return nil, errors.New("not an object of strings")
	}
	if len(m) == 0 {
		return nil, nil
	}
	return m, nil
}
