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
	Kind     string    // attempts, permanent, payload, type, version or message
	Reason   string
	Attempts int // counted before it was parked, and failed redrives
	ParkedAt time.Time

	// Envelope is the event as it came; of a message that isn't one, its Headers
	// and Data only.
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
		ConsumerName: c.spec.Name, AfterID: after, Limit: int32(min(max(limit, 1), 10_000)), //nolint:gosec // bounded
	})
	if err != nil {
		return nil, fmt.Errorf("list parked events: %w", err)
	}
	parked := make([]ParkedEvent, len(rows))
	for i, row := range rows {
		if parked[i], err = row.event(); err != nil && row.Kind != parkedMessage {
			return nil, fmt.Errorf("parked event %s: %w", row.EventID, err)
		}
	}
	return parked, nil
}

// Redrive hands a parked event to the handler. In one transaction it leaves
// parked_event, its dedup row is written anew and the handler runs: it is applied
// once, however many redrive it at the same time, and when the handler fails it
// stays parked, with the new reason. The error is [ErrNotParked], [ErrUnreadable],
// a *[HandlingError], or a *[CommitUnknownError] inside one: then look again.
func (c *Consumer) Redrive(ctx context.Context, eventID uuid.UUID) (Handling, error) {
	var (
		a      attempt
		e      Envelope
		parked ParkedEvent
	)
	txCtx, cancel := context.WithTimeoutCause(ctx, c.cfg.Timeout, errHandleTimeout)
	defer cancel()
	_, err := InTxWith(txCtx, c.db, c.txOptions(), func(tx *Tx) error {
		row, err := c.unpark(txCtx, tx, eventID.String())
		if err != nil {
			return err
		}
		if parked, err = row.event(); err != nil {
			return err
		}
		e = parked.Envelope
		route, ok := c.spec.Routes[e.Type]
		if !ok {
			return fmt.Errorf("%w: consumer %s, event type %q", ErrNotHandled, c.spec.Name, e.Type)
		}
		effect, err := route.bind(e)
		if err != nil {
			return err
		}
		a.handling = Applied
		return c.apply(ContextWithTrace(txCtx, e.Headers), tx, e, &a, effect)
	})
	switch {
	case err == nil:
		c.stats.count(a.handling, nil)
		return a.handling, nil
	case errors.Is(err, ErrNotParked), errors.Is(err, ErrUnreadable):
		return NotHandled, err
	case a.handling == Duplicate: // applied meanwhile, as after its dedup row was purged
		c.stats.count(Duplicate, nil)
		return Duplicate, c.book(ctx, func(ctx context.Context, tx *Tx) error {
			_, err := c.spec.Inbox.DeleteParked(ctx, tx, DeleteParkedParams{ConsumerName: c.spec.Name, EventID: eventID.String()})
			return err
		})
	}
	failure := c.error(Envelope{ID: eventID}, err, FailureFailed, parked.Attempts+1, 0)
	if errors.As(err, new(*CommitUnknownError)) || e.ID == uuid.Nil {
		return NotHandled, failure
	}
	return NotHandled, errors.Join(failure, c.book(ctx, func(ctx context.Context, tx *Tx) error {
		return c.spec.Inbox.FailParked(ctx, tx, FailParkedParams{
			Reason: shorten(reasonOf(c.db, err), maxParkedReason), ConsumerName: c.spec.Name, EventID: eventID.String(),
		})
	}))
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
	_, err = c.spec.Inbox.DeleteConsumed(ctx, tx, DeleteConsumedParams{
		ConsumerName: c.spec.Name, EventID: eventID, Outcome: uint8(Parked),
	})
	if err != nil {
		return row, fmt.Errorf("delete the dedup row: %w", err)
	}
	return row, nil
}

// event reads a row back.
func (r ParkedRow) event() (ParkedEvent, error) {
	p := ParkedEvent{
		ID: r.ID, Kind: r.Kind, Reason: r.Reason, Attempts: int(r.Attempts), ParkedAt: fromMicros(r.ParkedUs),
	}
	var err error
	if p.EventID, err = ParseEventID(r.EventID); err != nil {
		return p, err
	}
	var headers, attributes map[string]string
	if err := json.Unmarshal(r.Headers, &headers); err != nil {
		return p, errors.New("its headers are not an object of strings")
	}
	if len(headers) == 0 {
		headers = nil
	}
	p.Envelope = Envelope{ID: p.EventID, Headers: headers, Data: r.Body}
	if err := json.Unmarshal(r.Attributes, &attributes); err != nil {
		return p, errors.New("its attributes are not an object of strings")
	}
	if r.Kind == parkedMessage {
		return p, nil
	}
	p.Envelope, err = EnvelopeFromAttributes(func(name string) string { return attributes[name] }, headers, r.Body)
	return p, err
}
