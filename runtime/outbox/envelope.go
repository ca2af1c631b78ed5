package outbox

import (
	"encoding/json"
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
	Time             time.Time // CloudEvents time; when the row was written, by the database's clock

	// Headers are the writer's own, such as traceparent. Their names are lower case.
	Headers map[string]string

	// Data is the payload, in JSON.
	Data json.RawMessage
}

// Message is an event as a handler gets it: the payload decoded, the rest as it came.
type Message[T any] struct {
	Envelope Envelope
	Payload  T
}

// EventID is the event's id. Hand it as the idempotency key to whatever remote
// side a handler calls.
func (m Message[T]) EventID() uuid.UUID { return m.Envelope.ID }
