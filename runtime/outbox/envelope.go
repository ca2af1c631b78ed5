package outbox

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
)

// Envelope is an event on its way to or from a broker: a CloudEvents 1.0 event
// (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md).
type Envelope struct {
	ID               uuid.UUID // CloudEvents id; the event id, the same in every repeat
	Source           string    // CloudEvents source; the service that produced it
	Type             string    // CloudEvents type; the event's name
	AggregateType    string    // extension aggregatetype
	AggregateID      string    // CloudEvents subject
	AggregateVersion int64     // extension aggregateversion; the version of the business fact
	SchemaVersion    int       // extension schemaversion; the version of the payload's shape
	DataSchema       string    // CloudEvents dataschema; the URI of the payload's schema, empty unless exports.schema_base is set
	Time             time.Time // CloudEvents time; when the row was written, by the database's clock

	// RepeatCause is why the message may be a repeat, for metrics: extension repeatcause,
	// which only such messages have. Usually empty.
	RepeatCause RepeatCause

	// Headers are the writer's own, such as traceparent. Their names are lower case.
	Headers map[string]string

	// Data is the payload, in JSON.
	Data json.RawMessage
}

// Format prints the event's type and id with every verb: payload and headers may
// be private.
func (e Envelope) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "%s %s", e.Type, e.ID) }

// LogValue is what slog shows: as much as Format.
func (e Envelope) LogValue() slog.Value {
	return slog.GroupValue(slog.String("type", e.Type), slog.String("id", e.ID.String()))
}

// Message is an event as a handler gets it: the payload decoded, the rest as it came.
type Message[T any] struct {
	Envelope Envelope
	Payload  T
}

// Format prints as the envelope does.
func (m Message[T]) Format(f fmt.State, verb rune) { m.Envelope.Format(f, verb) }

// LogValue is what slog shows: as much as Format.
func (m Message[T]) LogValue() slog.Value { return m.Envelope.LogValue() }

// EventID is the event's id. Hand it as the idempotency key to whatever remote
// side a handler calls.
func (m Message[T]) EventID() uuid.UUID { return m.Envelope.ID }
