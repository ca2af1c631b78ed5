package watermill

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// call is one call of Publish.
type call struct {
	publisher *Publisher
	ctx       context.Context //nolint:containedctx // of the call
	results   []error
	entering  context.Context //nolint:containedctx // ends with ctx, and by halt
	halt      context.CancelCauseFunc

	mu       sync.Mutex
	stopped  map[string]error // by topic: why nothing more is sent to it
	panicked any
}

// outgoing is one message of a call.
type outgoing struct {
	index   int
	topic   string
	message *message.Message
	refused error // why it can't be sent
}

// prepare encodes the messages. Those of a chain are sent one after the other.
func (c *call) prepare(envelopes []outbox.Envelope) [][]outgoing {
	type aggregate struct{ typ, id string }
	at := make(map[aggregate]int)
	var chains [][]outgoing
	for i, e := range envelopes {
		m := outgoing{index: i, topic: c.publisher.topic(e.Type)}
		var err error
		if m.message, err = encode(e); err != nil {
			m.refused = outbox.PublishRejected(err)
		} else if m.topic == "" {
			m.refused = outbox.PublishUnavailable(fmt.Errorf("%w: %q", ErrNoTopic, e.Type))
		}
		key := aggregate{e.AggregateType, e.AggregateID}
		chain, has := at[key]
		if !has || c.publisher.cfg.Unordered {
			at[key] = len(chains)
			chains = append(chains, []outgoing{m})
			continue
		}
		chains[chain] = append(chains[chain], m)
	}
	return chains
}

// sendInOrder sends a chain's messages. One that was rejected is dead and out of the way;
// any other failure holds back what is behind it.
func (c *call) sendInOrder(chain []outgoing) {
	var first error
	for _, m := range chain {
		switch {
		case first != nil:
			c.results[m.index] = heldBack(first)
			continue
		case m.refused != nil:
			c.results[m.index] = m.refused
		default:
			c.results[m.index] = c.send(m)
		}
		if err := c.results[m.index]; err != nil && outbox.FailureKindOf(err) != outbox.FailureRejected {
			first = err
		}
	}
}

// send hands a message to the wrapped publisher and waits for its answer.
func (c *call) send(m outgoing) error {
	if err := c.enter(m.topic); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(c.ctx, c.publisher.cfg.AckTimeout, errAckTimeout)
	defer cancel()
	m.message.SetContext(ctx)
	done := make(chan error, 1)
	go func() {
		// A publisher that doesn't return keeps its place; whoever gets the place
		// afterwards sees what follows from the answer.
		defer func() { <-c.publisher.window }()
		done <- c.answered(m, c.publish(m))
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	case <-c.publisher.closed:
	}
	select {
	case err := <-done: // at the last moment; it counts
		return err
	default:
	}
	cause := context.Cause(ctx)
	if cause == nil {
		cause = ErrClosed
	}
	err := outbox.PublishUnknown(fmt.Errorf("sent and not yet confirmed: %w", cause))
	c.halt(err)
	return err
}

var errAckTimeout = errors.New("AckTimeout has passed")

// enter takes a place in the window.
func (c *call) enter(topic string) error {
	select {
	case c.publisher.window <- struct{}{}:
	case <-c.entering.Done():
		return c.notSent()
	case <-c.publisher.closed:
		return outbox.PublishUnavailable(ErrClosed)
	}
	err := c.mayNotSend(topic)
	if err != nil {
		<-c.publisher.window
	}
	return err
}

// mayNotSend is nil, or the result of a message that has a place and must not be sent.
func (c *call) mayNotSend(topic string) error {
	if c.entering.Err() != nil {
		return c.notSent()
	}
	select {
	case <-c.publisher.closed:
		return outbox.PublishUnavailable(ErrClosed)
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if first := c.stopped[topic]; first != nil {
		return heldBack(first)
	}
	return nil
}

func (c *call) notSent() error {
	cause := context.Cause(c.entering)
	var halted *outbox.PublishError
	if errors.As(cause, &halted) {
		return heldBack(halted)
	}
	return outbox.PublishUnavailable(fmt.Errorf("not sent: %w", cause))
}

func (c *call) publish(m outgoing) (err error) {
	defer func() {
		if v := recover(); v != nil {
			c.mu.Lock()
			c.panicked = v
			c.mu.Unlock()
			err = outbox.PublishUnknown(errPanicked)
		}
	}()
	return c.publisher.wrapped.Publish(m.topic, m.message)
}

// panic is the value that the wrapped publisher panicked with, if it did.
func (c *call) panic() any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.panicked
}

var errPanicked = errors.New("the wrapped publisher panicked")

// answered is the result of a message whose publish returned.
func (c *call) answered(m outgoing, err error) error {
	if err == nil {
		return nil
	}
	result := &outbox.PublishError{Kind: c.publisher.cfg.Classify(err), Err: err}
	if result.Kind == outbox.FailureUnavailable {
		c.stop(m.topic, result)
	}
	return result
}

func (c *call) stop(topic string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped == nil {
		c.stopped = make(map[string]error)
	}
	if c.stopped[topic] == nil {
		c.stopped[topic] = err
	}
}

func heldBack(first error) error {
	if outbox.FailureKindOf(first) == outbox.FailureHeldBack {
		return first
	}
	return outbox.PublishHeldBack(fmt.Errorf("%w: %w", ErrHeldBack, errors.Unwrap(first)))
}
