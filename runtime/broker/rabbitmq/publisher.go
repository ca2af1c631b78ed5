package rabbitmq

import (
	"context"
	"fmt"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Publisher publishes to RabbitMQ. It implements [outbox.Publisher]; Publish may be called
// from many goroutines.
type Publisher struct {
	cfg    PublisherConfig
	sender *sender
}

var _ outbox.Publisher = (*Publisher)(nil)

// NewPublisher makes a publisher with a connection of its own. It doesn't talk to the broker
// yet: the first Publish connects, and each one connects anew after the connection was
// lost. An error is always one of the settings. Close it.
func NewPublisher(c Connector, cfg PublisherConfig) (*Publisher, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Publisher{cfg: cfg, sender: newSender(c, cfg.MaxInFlight, cfg.AckTimeout, cfg.Backoff, cfg.MaxBackoff)}, nil
}

// Close closes the connection. Publish calls that still wait get PublishUnknown.
func (p *Publisher) Close() { p.sender.close() }

// Publish implements [outbox.Publisher]. Every message is persistent and mandatory. An
// event is confirmed when the broker has acknowledged it and had not returned it before.
//
// Events of one aggregate keep their order (see [PublisherConfig.Unordered]); those of
// different aggregates are on their way together. Once a failure shows that the broker
// takes nothing, and when ctx ends, no more is sent. Nothing is tried twice: that is
// the relay's to decide.
//
//   - Rejected: no queue for its routing key ([ErrUnroutable]); a reserved header, a bad
//     attribute, exchange or routing key; a message above the broker's max_message_size.
//   - Failed: a queue refused it ([ErrNacked]); its type isn't in the topology.
//   - Unavailable, and certainly not sent or not taken: not connected, blocked by an alarm
//     ([ErrBlocked]), no such exchange ([ErrNoExchange]) or no permission to write to
//     it, the window full for as long as AckTimeout.
//   - Unknown: sent, and no confirm before AckTimeout, the end of ctx or of the channel.
//   - Held back: not sent because of another one ([ErrHeldBack]).
func (p *Publisher) Publish(ctx context.Context, messages []outbox.Envelope) []error {
	c := &call{publisher: p, ctx: ctx, results: make([]error, len(messages))}
	c.prepare(messages)
	c.run()
	return c.results
}

// prepare encodes the messages, settles those that can never be sent, and finds out
// which of them wait for which.
func (c *call) prepare(envelopes []outbox.Envelope) {
	type aggregate struct{ typ, id string }
	last := make(map[aggregate]int)
	c.messages = make([]message, len(envelopes))
	c.followers = make([]int, len(envelopes))
	for i := range c.followers {
		c.followers[i] = -1
	}
	for i, e := range envelopes {
		m, err := c.publisher.encode(e)
		if outbox.FailureKindOf(err) == outbox.FailureRejected {
			c.results[i] = err // it is out of its followers' way
			continue
		}
		m.err = err
		c.messages[i] = m
		key := aggregate{e.AggregateType, e.AggregateID}
		if previous, ok := last[key]; ok && !c.publisher.cfg.Unordered {
			c.followers[previous] = i
		} else {
			c.ready = append(c.ready, i)
		}
		last[key] = i
	}
}

// encode makes a message of an envelope. An error is its outcome.
func (p *Publisher) encode(e outbox.Envelope) (message, error) {
	m, err := encode(e)
	if err != nil {
		return message{}, outbox.PublishRejected(err)
	}
	exchange, key, ok := p.cfg.route(e)
	if !ok {
		return message{}, outbox.PublishFailed(fmt.Errorf("the topology has no event %q", e.Type))
	}
	if err := checkPlace(exchange, key); err != nil {
		return message{}, outbox.PublishRejected(err)
	}
	return message{exchange: exchange, key: key, publishing: m}, nil
}
