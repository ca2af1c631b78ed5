package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/fault"
)

// MaxPayloadBytes is how long an encoded payload may be. NATS, for one, takes
// messages of up to 1 MiB with their headers, unless configured otherwise.
const MaxPayloadBytes = 1_000_000

// The widths of the table's columns, in characters. A server that isn't in
// strict mode would cut what is longer.
const (
	maxAggregateID = 128
	maxEventType   = 128
)

// ErrPayloadTooLarge is returned for a payload longer than [MaxPayloadBytes].
var ErrPayloadTooLarge = errors.New("the payload is too large")

// WriteOptions are optional settings of one written event.
type WriteOptions struct {
	// Headers travel beside the payload, to the handler's Message.Envelope.Headers.
	// Names are lower-case letters, digits and dashes; names that a broker would
	// take as a command are refused. At most 8 KiB in all. Defaults to none.
	Headers map[string]string

	// NotBefore is when the event is due, by the database's clock: it is not
	// published before. Its place in its aggregate's order is that of its time,
	// behind events that are written later and due earlier. Defaults to at once.
	NotBefore time.Time
}

// Record is an event that a generated writer hands to [Write].
type Record struct {
	EventID       uuid.UUID
	AggregateType string
	AggregateID   string
	EventType     string
	EventVersion  int64
	SchemaVersion int32
	Payload       Payload
}

// Payload is a generated payload type.
type Payload interface {
	// Validate says why the payload must not be written: a value that its type
	// does not allow, or that would not come back from the JSON column as it was.
	Validate() error
}

// Row is a row of the outbox, checked and encoded.
type Row struct {
	EventID       string
	AggregateType string
	AggregateID   string
	EventType     string
	EventVersion  int64
	SchemaVersion int32
	Payload       json.RawMessage
	Headers       json.RawMessage
	NotBeforeUs   int64 // since 1970; 0 for at once
}

// Write checks and encodes an event and inserts it in tx. Generated writers call it.
//
// When it fails, the business change must not commit without its event: an
// *outbox.Tx is poisoned, with a plain *sql.Tx the caller must roll back. All
// checks come before any SQL. No error holds a value of the payload.
func Write(
	ctx context.Context,
	tx Transaction,
	r Record,
	insert func(context.Context, Transaction, Row) error,
	opts ...WriteOptions,
) error {
	err := write(ctx, tx, r, insert, opts)
	if err == nil {
		if t, ok := tx.(interface{ wroteEvent() }); ok { // also a type that embeds *Tx
			t.wroteEvent()
		}
		return nil
	}
	err = fmt.Errorf("write %s: %w", r.EventType, err)
	if p, ok := tx.(interface{ Poison(error) }); ok {
		p.Poison(err)
	}
	return err
}

func write(
	ctx context.Context,
	tx Transaction,
	r Record,
	insert func(context.Context, Transaction, Row) error,
	opts []WriteOptions,
) error {
	if err := checkRecord(r); err != nil {
		return err
	}
	if len(opts) > 1 {
		return errors.New("more than one WriteOptions")
	}
	var options WriteOptions
	if len(opts) == 1 {
		options = opts[0]
	}
	headers, err := encodeHeaders(withTrace(ctx, options.Headers))
	if err != nil {
		return err
	}
	notBefore, err := notBeforeUs(options.NotBefore)
	if err != nil {
		return err
	}
	payload, err := json.Marshal(r.Payload)
	if err != nil {
		return fmt.Errorf("encode payload: %w", withoutValues(err))
	}
	if len(payload) > MaxPayloadBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrPayloadTooLarge, len(payload), MaxPayloadBytes)
	}
	if err := fault.At(ctx, fault.WriterBusiness); err != nil {
		return err
	}
	err = insert(ctx, tx, Row{
		EventID:       r.EventID.String(),
		AggregateType: r.AggregateType,
		AggregateID:   r.AggregateID,
		EventType:     r.EventType,
		EventVersion:  r.EventVersion,
		SchemaVersion: r.SchemaVersion,
		Payload:       payload,
		Headers:       headers,
		NotBeforeUs:   notBefore,
	})
	if err != nil {
		return err
	}
	return fault.At(ctx, fault.WriterEvent)
}

// lastYear is the last one that a DATETIME column takes.
const lastYear = 9999

// notBeforeUs returns microseconds since 1970, rounded up; what is past is due at once.
func notBeforeUs(t time.Time) (int64, error) {
	switch {
	case t.IsZero(), t.Before(time.UnixMicro(0)):
		return 0, nil
	case t.UTC().Year() >= lastYear:
		return 0, fmt.Errorf("NotBefore is in the year %d, the last one possible is %d", t.UTC().Year(), lastYear-1)
	default:
		return t.Add(time.Microsecond - 1).UnixMicro(), nil
	}
}

func checkRecord(r Record) error {
	if err := checkEventID(r.EventID); err != nil {
		return err
	}
	switch n := utf8.RuneCountInString(r.AggregateID); {
	case n == 0:
		return errors.New("the aggregate id is empty")
	case n > maxAggregateID:
		return fmt.Errorf("the aggregate id has %d characters, at most %d fit", n, maxAggregateID)
	case !utf8.ValidString(r.AggregateID):
		return errors.New("the aggregate id is not UTF-8")
	}
	if len(r.EventType) > maxEventType {
		return fmt.Errorf("the event type has %d characters, at most %d fit", len(r.EventType), maxEventType)
	}
	return r.Payload.Validate()
}
