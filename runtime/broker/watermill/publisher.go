package watermill

import (
	"context"
	"errors"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Publisher publishes through a Watermill publisher. It implements
// [outbox.Publisher]; Publish may be called from many goroutines.
type Publisher struct {
	wrapped message.Publisher
	cfg     PublisherConfig
	topic   func(eventType string) string
	window  chan struct{} // one token a message in the wrapped publisher's hands
	closed  chan struct{}
	close   func()
}

var _ outbox.Publisher = (*Publisher)(nil)

var (
	// ErrHeldBack is in the error of a message that was not sent because of an earlier
	// one in the same call.
	ErrHeldBack = errors.New("not sent: an earlier message failed")

	// ErrNoTopic is in the error of an event whose type has no topic, as when a relay is
	// older than the service. The kind is unavailable: it waits.
	ErrNoTopic = errors.New("there is no topic for the event type")

	// ErrClosed is in the error of a message that was published after Close, or was on
	// its way.
	ErrClosed = errors.New("the publisher is closed")
)

// NewPublisher makes a publisher of a Watermill publisher, which it neither made nor
// closes. It doesn't talk to the broker; an error is always one of cfg.
func NewPublisher(wrapped message.Publisher, cfg PublisherConfig) (*Publisher, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	p := &Publisher{
		wrapped: wrapped, cfg: cfg, topic: topicOf(cfg.Topology, cfg.Topic),
		window: make(chan struct{}, cfg.MaxInFlight), closed: make(chan struct{}),
	}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p, nil
}

// Close ends the publisher. Publish calls that still wait get PublishUnknown. The wrapped
// publisher stays open.
func (p *Publisher) Close() { p.close() }

// Publish implements [outbox.Publisher]. Each event is a call of the wrapped publisher's
// own Publish: that returns one error for all messages of a call and doesn't say which
// of them the broker has. An event is confirmed when it returned nil, and that means
// what [PublisherConfig.Synchronous] states.
//
// Events of one aggregate are sent one after the other (see
// [PublisherConfig.Unordered]); those of different aggregates together. Once a topic
// takes nothing no more is sent to it, once a message got no answer no more is sent at
// all. Nothing is tried twice: that is the relay's to decide.
//
//   - Rejected: a reserved header, a bad attribute.
//   - Unavailable: not sent, since ctx has ended or the publisher is closed; and an
//     event without a topic ([ErrNoTopic]), which stops no other.
//   - Held back: not sent because of another one ([ErrHeldBack]).
//   - Unknown: no answer before AckTimeout or the end of ctx, and every error of the
//     wrapped publisher of which [PublisherConfig.Classify] doesn't know better. A
//     message that the broker always refuses is then tried for ever.
//
// A panic of the wrapped publisher comes through, when the other messages have ended.
func (p *Publisher) Publish(ctx context.Context, messages []outbox.Envelope) []error {
	c := &call{publisher: p, ctx: ctx, results: make([]error, len(messages))}
	c.entering, c.halt = context.WithCancelCause(ctx)
	defer c.halt(nil)
	var sending sync.WaitGroup
	for _, chain := range c.prepare(messages) {
		sending.Go(func() { c.sendInOrder(chain) })
	}
	sending.Wait()
	if v := c.panic(); v != nil {
		panic(v)
	}
	return c.results
}
