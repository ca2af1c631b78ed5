package outbox

import (
	"context"
	"sync"
)

// RepeatCause is why an event may come to a consumer again. It is a hint for metrics and
// traces: nothing else depends on it, and most causes are guesses, see there. It travels
// as the CloudEvents extension `repeatcause`, on messages that are known to be possible
// repeats and on no other; who doesn't know it ignores it.
type RepeatCause string

// The causes. The zero value is no repeat as far as is known.
const (
	// RepeatLeaseExpired: a relay claimed the event after a lease on it had run out that
	// nobody gave back. Whether the earlier owner had published it can't be known. With
	// `ordering: aggregate` the lease is a lane's: every event of the lane that is older than
	// the lease's end gets this cause, also those that the earlier owner never touched.
	RepeatLeaseExpired RepeatCause = "lease-expired"

	// RepeatConfirmLost: the same relay had handed the event to the broker before, and
	// either never learned whether the broker took it, or couldn't record that it did. A
	// relay that was started anew, or another one, doesn't know: it tells RepeatLeaseExpired,
	// or nothing when the lease was given back.
	RepeatConfirmLost RepeatCause = "confirm-lost"

	// RepeatRedelivery: the broker says that it had delivered this very message before, or
	// the subscription hands it over again itself, as after a pause. The delivery before may
	// have been given back untouched. It stands before the relay's causes: of a message that
	// has both it can't be told which of them the consumer met. Kafka doesn't say it of what
	// is read again after a rebalance.
	RepeatRedelivery RepeatCause = "redelivery"

	// RepeatRedrive: a parked event was redriven that turned out to be applied.
	RepeatRedrive RepeatCause = "redrive"

	// RepeatUnknown: a duplicate of which nobody has told a cause, such as a message that
	// a producer or a mirror of the broker sent twice.
	RepeatUnknown RepeatCause = "unknown"
)

// parseRepeatCause reads the attribute. Only what a relay writes counts: any sender could
// put any text there.
func parseRepeatCause(s string) RepeatCause {
	switch c := RepeatCause(s); c {
	case RepeatLeaseExpired, RepeatConfirmLost:
		return c
	default:
		return ""
	}
}

type redeliveredKey struct{}

// ContextWithRedelivery returns ctx with the word that the message was delivered before.
// Subscribers call it for the ctx of [Handler.Handle], when the broker says so.
func ContextWithRedelivery(ctx context.Context) context.Context {
	return context.WithValue(ctx, redeliveredKey{}, true)
}

// IsRedelivery reports whether ctx is one of [ContextWithRedelivery].
func IsRedelivery(ctx context.Context) bool {
	redelivered, _ := ctx.Value(redeliveredKey{}).(bool)
	return redelivered
}

// repeatCause says why an event that a consumer was handed may be a repeat; empty when
// nothing speaks for it.
func repeatCause(ctx context.Context, e Envelope) RepeatCause {
	if IsRedelivery(ctx) {
		return RepeatRedelivery
	}
	return e.RepeatCause
}

// maxHandedOver bounds what a relay remembers. Beyond it, causes are not told.
const maxHandedOver = 100_000

// handedOver are the events that a relay has handed to the broker and that are not
// recorded as published, by key.
type handedOver struct {
	mu   sync.Mutex
	keys map[string]struct{}
}

// add notes the events whose outcome is one that the broker may have taken them with.
func (h *handedOver) add(outcomes []EventOutcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range outcomes {
		o := &outcomes[i]
		if o.Kind != OutcomeUnknown && o.Kind != OutcomePublished || len(h.keys) >= maxHandedOver {
			continue
		}
		if h.keys == nil {
			h.keys = make(map[string]struct{})
		}
		h.keys[o.Key] = struct{}{}
	}
}

// settled forgets the events that a settlement has recorded, and notes those of which
// nobody knows.
func (h *handedOver) settled(outcomes []EventOutcome) {
	var unknown []EventOutcome
	h.mu.Lock()
	for i := range outcomes {
		switch o := &outcomes[i]; o.Kind {
		case OutcomeUnknown:
			unknown = append(unknown, *o)
		case OutcomePublished, OutcomeDead:
			delete(h.keys, o.Key)
		case OutcomeReleased, OutcomeRetry:
			// It may have got there at an earlier time all the same.
		}
	}
	h.mu.Unlock()
	if len(unknown) > 0 {
		h.add(unknown)
	}
}

func (h *handedOver) has(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.keys[key]
	return ok
}

// repeatOf is what the message of a claimed event is stamped with.
func (r *Relay) repeatOf(e *Event) RepeatCause {
	if r.handedOver.has(e.Key) {
		return RepeatConfirmLost
	}
	return e.Repeat
}
