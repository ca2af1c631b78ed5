package kafka

import (
	"context"
	"errors"
	"sync"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Publisher publishes to the topics of a cluster. It implements [outbox.Publisher];
// Publish may be called from many goroutines.
type Publisher struct {
	cluster Cluster
	cfg     PublisherConfig
	alone   chan struct{} // held by the one message that may be in single's hands

	mu     sync.Mutex
	bulk   *session // of most messages; nil when it was discarded
	single *session // of messages whose batch was refused, one at a time
	closed bool
}

var _ outbox.Publisher = (*Publisher)(nil)

// NewPublisher makes a publisher. It doesn't talk to the broker, and an error is
// always one of the settings. Close it.
func NewPublisher(cluster Cluster, cfg PublisherConfig) (*Publisher, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p := &Publisher{cluster: cluster, cfg: cfg, alone: make(chan struct{}, 1)}
	if _, err := p.session(&p.bulk); err != nil {
		return nil, err
	}
	return p, nil
}

// Close ends the connections. Publish calls that still wait get PublishUnknown.
func (p *Publisher) Close() {
	p.mu.Lock()
	bulk, single := p.bulk, p.single
	p.bulk, p.single, p.closed = nil, nil, true
	p.mu.Unlock()
	for _, s := range []*session{bulk, single} {
		if s != nil {
			s.close()
		}
	}
}

var errClosed = errors.New("the publisher is closed")

// session returns the one of a place, new when there is none.
func (p *Publisher) session(place **session) (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	if *place == nil {
		s, err := newSession(p.cluster, p.cfg)
		if err != nil {
			return nil, err
		}
		*place = s
	}
	return *place, nil
}

// discard ends a session, with everything that it still holds: otherwise a message
// whose outcome was called unknown could be sent much later, behind newer ones.
func (p *Publisher) discard(s *session) {
	p.mu.Lock()
	if p.bulk == s {
		p.bulk = nil
	}
	if p.single == s {
		p.single = nil
	}
	p.mu.Unlock()
	s.close()
}

// Publish implements [outbox.Publisher]. An event is confirmed when its
// partition's leader has acknowledged it for all replicas in sync.
//
// Events of one aggregate keep their order (see [PublisherConfig.Unordered]);
// those of different aggregates are on their way together. Once a failure shows
// that the broker takes nothing, and when ctx ends, no more is sent. franz-go sends a
// record up to three times, as the broker's idempotence allows; beyond that nothing is
// tried twice: that is the relay's to decide.
//
//   - Rejected: a reserved header, a bad attribute, a record above
//     MaxMessageBytes or the topic's max.message.bytes, or refused by the broker as
//     invalid.
//   - Unavailable: no broker, no topic, no leader, too few replicas in sync
//     (NOT_ENOUGH_REPLICAS, of which nothing was appended), not allowed.
//   - Unknown: sent, and no answer before AckTimeout or the end of ctx or of the
//     connection, or one that leaves it open, such as
//     NOT_ENOUGH_REPLICAS_AFTER_APPEND and REQUEST_TIMED_OUT.
//   - Failed: no topic of that event type in the topology; an answer that blames the
//     record for now, such as INVALID_TIMESTAMP.
//   - Held back: not sent because of another one ([ErrHeldBack]).
func (p *Publisher) Publish(ctx context.Context, messages []outbox.Envelope) []error {
	c := &call{
		publisher: p, ctx: ctx,
		results:  make([]error, len(messages)),
		finished: make(chan outcome, len(messages)),
	}
	c.prepare(messages)
	c.run()
	return c.results
}
