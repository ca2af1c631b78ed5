package outbox

import (
	"context"
	"errors"
	"fmt"
)

// Publisher hands messages to a broker.
type Publisher interface {
	// Publish returns one result a message, in their order: nil once the broker
	// has confirmed the message at the level configured, otherwise an error
	// made by [PublishRejected], [PublishFailed], [PublishUnavailable],
	// [PublishHeldBack] or [PublishUnknown]. Any other error counts as unknown. A
	// publisher returns when ctx ends, with PublishUnknown for what was handed over
	// and not yet confirmed.
	//
	// It is called from several goroutines at once, with messages of different
	// aggregates where the store promises an order. For such a store the messages of
	// one aggregate (its type and id) are published in the order given, a message
	// only after the one before it was confirmed or rejected: when that one failed,
	// was not taken, is unknown or was held back, the later ones are not sent and
	// get PublishHeldBack. The relay marks what was confirmed against this rule all
	// the same, and warns. Messages of different aggregates don't wait for each other.
	Publish(ctx context.Context, messages []Envelope) []error
}

// FailureKind says whose fault it is that a message wasn't confirmed, and so
// what the relay does next.
type FailureKind int

// The kinds of failure.
const (
	// FailureUnknown: the broker may have the message. The row is due again when
	// the lease of its batch would end, and is then published again. No attempt is
	// counted.
	FailureUnknown FailureKind = iota
	// FailureUnavailable: the broker can't be reached or takes nothing. No
	// attempt is counted, the row is given back and the relay pauses.
	FailureUnavailable
	// FailureFailed: the broker did not take this message, this time. The
	// attempt is counted and made again after a backoff.
	FailureFailed
	// FailureRejected: the broker will never take this message. It is dead at once.
	FailureRejected
	// FailureHeldBack: the message was not sent because of another one. No
	// attempt is counted, the row is given back.
	FailureHeldBack
)

func (k FailureKind) String() string {
	switch k {
	case FailureUnavailable:
		return "unavailable"
	case FailureFailed:
		return "failed"
	case FailureRejected:
		return "rejected"
	case FailureHeldBack:
		return "held back"
	default:
		return "unknown"
	}
}

// PublishError is a failure to publish with its kind.
type PublishError struct {
	Kind FailureKind
	Err  error
}

func (e *PublishError) Error() string {
	if e == nil { // in an error that isn't: the relay must be able to print it
		return "publish unknown: a nil error of the publisher's"
	}
	return fmt.Sprintf("publish %v: %v", e.Kind, e.Err)
}

func (e *PublishError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// PublishRejected marks err as the broker's final no to this message.
func PublishRejected(err error) error { return &PublishError{Kind: FailureRejected, Err: err} }

// PublishFailed marks err as a failure of this message that may pass.
func PublishFailed(err error) error { return &PublishError{Kind: FailureFailed, Err: err} }

// PublishUnavailable marks err as the broker's trouble, not the message's. Use it only
// when the message certainly was not taken.
func PublishUnavailable(err error) error { return &PublishError{Kind: FailureUnavailable, Err: err} }

// PublishUnknown marks err as leaving open whether the broker has the message.
func PublishUnknown(err error) error { return &PublishError{Kind: FailureUnknown, Err: err} }

// PublishHeldBack marks err as the reason why the message was not sent, which lies
// with another one, such as an earlier message of its aggregate.
func PublishHeldBack(err error) error { return &PublishError{Kind: FailureHeldBack, Err: err} }

// FailureKindOf returns the kind that err carries; FailureUnknown when it carries none.
func FailureKindOf(err error) FailureKind {
	var p *PublishError
	if errors.As(err, &p) && p != nil {
		return p.Kind
	}
	return FailureUnknown
}
