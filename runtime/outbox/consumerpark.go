package outbox

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/fault"
)

// Why an event is parked: parked_event.kind.
const (
	parkedAttempts   = "attempts"   // it failed as often as it may
	parkedPermanent  = "permanent"  // the handler said so
	parkedPayload    = "payload"    // it can't be decoded
	parkedType       = "type"       // its type is unknown to this build
	parkedVersion    = "version"    // its schema version is
	parkedMessage    = "message"    // it isn't an event
	parkedRedelivery = "redelivery" // it didn't fail: people want it to be delivered again
)

// bookTimeout bounds the transaction that counts a failed attempt, or parks.
const bookTimeout = 10 * time.Second

// The widths of the columns, in characters.
const (
	maxParkedReason = 1024
	maxParkedType   = 255
)

// failed ends an attempt that has failed: it counts it, and parks the event when
// it was the last one.
func (c *Consumer) failed(ctx context.Context, e Envelope, a attempt) (ending, error) {
	c.logPanic(ctx, e.ID, a.err)
	kind := c.kind(ctx, a)
	if kind != FailureFailed {
		return ending{}, c.error(e, a.err, kind, 0, c.cfg.Backoff)
	}
	if isPermanent(a.err) {
		return c.park(ctx, e, parkedPermanent, a.err)
	}
	attempts, parked, err := c.countFailure(ctx, e, a.err)
	if err != nil {
		return ending{}, c.notBooked(ctx, e, a.err, err)
	}
	switch parked {
	case Parked:
		c.logParked(ctx, e.ID, parkedAttempts, reasonOf(c.db, a.err))
		return ending{handling: Parked, parked: parkedAttempts}, nil
	case Duplicate:
		return ending{handling: Duplicate}, nil
	}
	return ending{}, c.error(e, a.err, FailureFailed, attempts, backoff(c.cfg.Backoff, c.cfg.MaxBackoff, attempts))
}

// notBooked is for an event of which neither a failure nor its parking could be
// written, because of err: nothing was counted. What the server refuses to write
// of one event says nothing about others: it does not stop them.
func (c *Consumer) notBooked(ctx context.Context, e Envelope, cause, err error) error {
	kind, again := FailureUnavailable, c.cfg.Backoff
	switch info := c.db.Classify(err); {
	case ctx.Err() != nil, info.Fault == FaultDeadlock, info.Fault == FaultLockTimeout:
		kind = FailureHeldBack
	case info.Code != 0 && (info.Fault == FaultOther || info.Fault == FaultDuplicate):
		kind, again = FailureFailed, c.cfg.MaxBackoff
	}
	return c.error(e, errors.Join(cause, err), kind, 0, again)
}

func (c *Consumer) error(e Envelope, cause error, kind FailureKind, attempts int, again time.Duration) error {
	return &HandlingError{
		Consumer: c.spec.Name, EventID: e.ID, Cause: cause,
		Kind: kind, Attempts: attempts, Again: again,
		text: fmt.Sprintf("consumer %s, event %s: %s", c.spec.Name, e.ID, reasonOf(c.db, cause)),
	}
}

// countFailure counts an attempt, and parks the event in the same transaction when
// it was the last one: then the handling is Parked, or Duplicate when another process
// has had more luck.
func (c *Consumer) countFailure(ctx context.Context, e Envelope, cause error) (attempts int, h Handling, err error) {
	reason := shorten(reasonOf(c.db, cause), maxParkedReason)
	err = c.book(ctx, func(ctx context.Context, tx *Tx) error {
		h = NotHandled
		id := e.ID.String()
		if err := c.spec.Inbox.CountFailure(ctx, tx, CountFailureParams{ConsumerName: c.spec.Name, EventID: id, Reason: reason}); err != nil {
			return fmt.Errorf("count the failed attempt: %w", err)
		}
		n, err := c.spec.Inbox.ReadAttempts(ctx, tx, ReadAttemptsParams{ConsumerName: c.spec.Name, EventID: id})
		if err != nil {
			return fmt.Errorf("read the attempts: %w", err)
		}
		if attempts = int(n); attempts < c.cfg.Attempts {
			return nil
		}
		h, err = c.insertParked(ctx, tx, parkedEvent(e, parkedAttempts, reason, n))
		return err
	})
	if h == Duplicate {
		err = nil
	}
	return attempts, h, err
}

// park sets an event aside.
func (c *Consumer) park(ctx context.Context, e Envelope, kind string, cause error) (ending, error) {
	reason := shorten(reasonOf(c.db, cause), maxParkedReason)
	var h Handling
	err := c.book(ctx, func(ctx context.Context, tx *Tx) error {
		h = NotHandled
		n, err := c.spec.Inbox.ReadAttempts(ctx, tx, ReadAttemptsParams{ConsumerName: c.spec.Name, EventID: e.ID.String()})
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("read the attempts: %w", err)
		}
		h, err = c.insertParked(ctx, tx, parkedEvent(e, kind, reason, n))
		return err
	})
	switch {
	case h == Duplicate:
		return ending{handling: Duplicate}, nil
	case err != nil:
		return ending{}, c.notBooked(ctx, e, cause, err)
	}
	c.logParked(ctx, e.ID, kind, reason)
	return ending{handling: Parked, parked: kind}, nil
}

// Park implements [Handler]: a message that isn't an event is written to parked_event,
// under an id made of its reference, or of its content.
func (c *Consumer) Park(ctx context.Context, m Unreadable) error {
	id := m.id(c.spec.Name)
	reason := shorten(m.Reason.Error(), maxParkedReason)
	row := InsertParkedParams{
		EventID: id.String(), Kind: parkedMessage, Reason: reason,
		Attributes: jsonObject(map[string]string{"reference": m.Reference}),
		Headers:    jsonObject(m.Headers), Body: notNull(m.Body),
	}
	seen := c.observe(ctx, Envelope{ID: id})
	var h Handling
	err := c.book(ctx, func(ctx context.Context, tx *Tx) (err error) {
		h, err = c.insertParked(ctx, tx, row)
		return err
	})
	switch {
	case h == Duplicate:
		seen.end(ctx, ending{handling: Duplicate}, nil)
		return nil
	case err != nil:
		err = c.notBooked(ctx, Envelope{ID: id}, m.Reason, err)
		seen.end(ctx, ending{}, err)
		return err
	}
	seen.end(ctx, ending{handling: Parked, parked: parkedMessage}, nil)
	c.logParked(ctx, id, parkedMessage, reason)
	return nil
}

// insertParked writes the dedup row too, so that a redelivery is absorbed.
func (c *Consumer) insertParked(ctx context.Context, tx *Tx, row InsertParkedParams) (Handling, error) {
	row.ConsumerName = c.spec.Name
	if err := c.insertDedup(ctx, tx, row.EventID, Parked); err != nil {
		if c.isDuplicate(err) {
			return Duplicate, err
		}
		return NotHandled, fmt.Errorf("insert dedup row: %w", err)
	}
	err := c.spec.Inbox.InsertParked(ctx, tx, row)
	if err != nil && string(row.Headers) != noStrings && c.db.Classify(err).Fault == FaultOther {
		err = c.spec.Inbox.InsertParked(ctx, tx, c.withoutHeaders(row, err))
	}
	if err != nil {
		return NotHandled, fmt.Errorf("park: %w", err)
	}
	return Parked, nil
}

// withoutHeaders is a row that was refused, without what the database may have refused of
// it: MySQL stores no JSON key above 64 KiB (3151), and any sender can give a header such a
// name. The reason says so.
func (c *Consumer) withoutHeaders(row InsertParkedParams, refusal error) InsertParkedParams {
	note := shorten(" (parked without its headers: "+reasonOf(c.db, refusal)+")", maxParkedReason/4)
	row.Reason = shorten(row.Reason, maxParkedReason-utf8.RuneCountInString(note)) + note
	row.Headers = json.RawMessage(noStrings)
	return row
}

// book runs a transaction about a message, which goes on when ctx has ended.
func (c *Consumer) book(ctx context.Context, fn func(context.Context, *Tx) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bookTimeout)
	defer cancel()
	_, err := InTxWith(fault.In(ctx, fault.Other), c.db, c.txOptions(), func(tx *Tx) error { return fn(ctx, tx) })
	return err
}

func (c *Consumer) logPanic(ctx context.Context, id uuid.UUID, err error) {
	if p := new(PanicError); errors.As(err, &p) {
		c.cfg.Logger.ErrorContext(ctx, "a handler panicked",
			"consumer", c.spec.Name, "event_id", id, "error", p.Error(), "stack", string(p.Stack))
	}
}

func (c *Consumer) logParked(ctx context.Context, id uuid.UUID, kind, reason string) {
	c.cfg.Logger.WarnContext(ctx, "an event was parked", "consumer", c.spec.Name, "event_id", id, "kind", kind, "reason", reason)
}

func parkedEvent(e Envelope, kind, reason string, attempts uint32) InsertParkedParams {
	return InsertParkedParams{
		EventID: e.ID.String(), EventType: shorten(e.Type, maxParkedType),
		Kind: kind, Reason: reason, Attempts: attempts,
		Attributes: jsonObject(maps.Collect(e.Attributes())), Headers: jsonObject(e.Headers), Body: notNull(e.Data),
	}
}

// RedeliveryRow is the row of parked_event by which a published event is handed to a consumer
// once more, past the broker: with its dedup row, and a row of consumer_redrive.
func RedeliveryRow(consumer string, e Envelope, reason string) InsertParkedParams {
	row := parkedEvent(e, parkedRedelivery, shorten(reason, maxParkedReason), 0)
	row.ConsumerName = consumer
	return row
}

// unreadableSpace makes the ids of messages that have none.
var unreadableSpace = uuid.MustParse("5a3b1d0e-6d8c-5f5e-9a53-0f3f0c6b8f11")

// id goes by the content too: when a broker's stream is made anew, its references
// begin again, and another message must not be taken for a repeat. Headers may be any
// bytes: each goes behind its length.
func (m Unreadable) id(consumer string) uuid.UUID {
	key := []byte(consumer + "\n" + m.Reference + "\n")
	if m.Reference == "" {
		key = binary.AppendUvarint(key, uint64(len(m.Headers)))
		for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
			for _, s := range []string{name, m.Headers[name]} {
				key = append(binary.AppendUvarint(key, uint64(len(s))), s...)
			}
		}
	}
	return uuid.NewSHA1(unreadableSpace, append(key, m.Body...))
}

// notNull is b as a value: the driver writes nil as NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// noStrings is the object of no strings.
const noStrings = "{}"

func jsonObject(m map[string]string) json.RawMessage {
	if len(m) == 0 {
		return json.RawMessage(noStrings)
	}
	b, err := json.Marshal(m)
	if err != nil { // strings can always be encoded
		return json.RawMessage(noStrings)
	}
	return b
}

// shorten returns at most limit characters of s, and only UTF-8.
func shorten(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + "…"
}
