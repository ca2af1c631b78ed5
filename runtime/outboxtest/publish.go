package outboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

var (
	errScripted = errors.New("scripted failure")
	errLost     = errors.New("the confirm was lost")
	errDown     = errors.New("the broker is down")
	errHeldBack = errors.New("not sent: an earlier event of its aggregate failed")
)

type aggregate struct{ typ, id string }

// Publish implements [outbox.Publisher]. An event whose aggregate has failed earlier
// in the call is held back, with PublishHeldBack, unless that one was rejected.
func (b *Broker) Publish(ctx context.Context, messages []outbox.Envelope) []error {
	results := make([]error, len(messages))
	blocked := make(map[aggregate]bool)
	for i, e := range messages {
		key := aggregate{e.AggregateType, e.AggregateID}
		if blocked[key] {
			results[i] = outbox.PublishHeldBack(errHeldBack)
			continue
		}
		results[i] = b.publish(ctx, e)
		blocked[key] = results[i] != nil && outbox.FailureKindOf(results[i]) != outbox.FailureRejected
	}
	return results
}

func (b *Broker) publish(ctx context.Context, e outbox.Envelope) error {
	e, err := normalize(e)
	if err != nil {
		return outbox.PublishRejected(err)
	}
	if ctx.Err() != nil {
		return outbox.PublishUnavailable(fmt.Errorf("not sent: %w", context.Cause(ctx)))
	}
	b.mu.Lock()
	hook := b.hook
	b.mu.Unlock()
	if hook != nil {
		if err := hook(clone(e)); err != nil {
			return err
		}
	}
	for {
		done, wait, err := b.tryStore(e)
		if done {
			if err == nil && fault.At(ctx, fault.RelaySent) != nil {
				return outbox.PublishUnknown(errLost)
			}
			return err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return outbox.PublishUnknown(fmt.Errorf("sent and not yet confirmed: %w", context.Cause(ctx)))
		}
	}
}

// tryStore stores the message or fails it, unless the broker is paused: then it
// returns a channel that tells of a change.
func (b *Broker) tryStore(e outbox.Envelope) (done bool, wait <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return true, nil, outbox.PublishUnavailable(ErrClosed)
	case b.down:
		return true, nil, outbox.PublishUnavailable(errDown)
	case b.paused:
		return false, b.changed, nil
	}
	if len(b.failures) > 0 {
		kind := b.failures[0]
		b.failures = b.failures[1:]
		return true, nil, &outbox.PublishError{Kind: kind, Err: errScripted}
	}
	b.stored = append(b.stored, e)
	close(b.changed)
	b.changed = make(chan struct{})
	if b.lostConfirms > 0 {
		b.lostConfirms--
		return true, nil, outbox.PublishUnknown(errLost)
	}
	return true, nil, nil
}

// normalize makes of an envelope what a broker's binding would hand over, or says
// why none could.
func normalize(e outbox.Envelope) (outbox.Envelope, error) {
	for name, value := range e.Headers {
		if err := outbox.CheckHeader(name, value); err != nil {
			return e, err
		}
	}
	if len(e.Data) == 0 {
		return e, errors.New("the event has no payload")
	}
	attrs := maps.Collect(e.Attributes())
	return outbox.EnvelopeFromAttributes(func(name string) string { return attrs[name] },
		maps.Clone(e.Headers), bytes.Clone(e.Data))
}

func clone(e outbox.Envelope) outbox.Envelope {
	e.Headers = maps.Clone(e.Headers)
	e.Data = bytes.Clone(e.Data)
	return e
}
