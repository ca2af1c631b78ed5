package outbox

import (
	"context"
	"time"
)

// Handler is a consumer as a broker's subscriber sees it. The subscriber
// acknowledges a message when Handle or Park has returned a nil error, and only
// then. [Consumer] implements it.
type Handler interface {
	// Name is the consumer's name, constant for all time: it is half of the dedup row's identity.
	Name() string

	// EventTypes are the events that it handles, sorted.
	EventTypes() []string

	// Handle applies the event unless it was applied before. It returns after the
	// commit. [RedeliveryOf] tells what a subscriber does about its error.
	Handle(ctx context.Context, e Envelope) (Handling, error)

	// Park sets aside a message that isn't an event. It returns after the commit.
	Park(ctx context.Context, m Unreadable) error

	// Limits are what a subscriber keeps to.
	Limits() Limits
}

// Limits of a handler. The zero value sets none.
type Limits struct {
	// Concurrency is how many events one subscription handles at a time; those of
	// one aggregate never. 0 leaves it to the subscriber, whose default is 1.
	Concurrency int

	// Timeout is how long Handle may take at most, for a subscriber to compare
	// with the time after which its broker delivers again. 0 for no limit.
	Timeout time.Duration
}

// Unreadable is a message that a broker's binding could not make an event of.
type Unreadable struct {
	// Reference is the message's place at the broker, such as stream and
	// sequence: the same for each delivery of it. Empty where a broker has none;
	// then the content stands in for it.
	Reference string

	// Headers are the message's headers and properties, as they came.
	Headers map[string]string

	// Body is the message's body, as it came.
	Body []byte

	// Reason is why it is no event; it wraps [ErrNotAnEvent] and holds no values.
	Reason error
}

// Handling is how a message ended that may be acknowledged.
type Handling int

// The endings.
const (
	NotHandled Handling = iota // with an error
	Applied                    // dedup row and effect were committed together
	Duplicate                  // the dedup row was there already; nothing was changed
	Skipped                    // a later version of its aggregate was applied before; only the dedup row was written
	Parked                     // given up on: the event is in parked_event, and can be redriven
	Discarded                  // parked, and then given up on by people; never returned by Handle
)

func (h Handling) String() string {
	switch h {
	case Applied:
		return "applied"
	case Duplicate:
		return "duplicate"
	case Skipped:
		return "skipped"
	case Parked:
		return "parked"
	case Discarded:
		return "discarded"
	default:
		return "not handled"
	}
}
