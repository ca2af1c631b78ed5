package outboxtest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/outboxgen/outboxgen/runtime/internal/delivery"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// shutdownTimeout is how long handlers that run when Subscribe is to end may go on
// before their context ends: what the packages for brokers default to.
const shutdownTimeout = 20 * time.Second

// group is what the broker knows of a consumer; it outlives its subscriptions. The
// keys are indexes into Broker.stored.
type group struct {
	types      []string
	acked      map[int]bool
	flight     map[int]*outgoing
	due        map[int]time.Time // of those given back: not before
	deliveries map[int]int
	from       int // nothing below waits: it is acknowledged or of another type
}

// Subscribe delivers to the handler what it has not acknowledged yet, until ctx ends;
// then it waits for handlers that run and returns nil. A handler's own context
// doesn't end with ctx, but 20 s later. The handler's name is the consumer: whoever
// subscribes again under it goes on where it was, and several at a time share the
// messages.
//
// As many messages are out at a time as the handler's Limits say, one by default,
// and of an aggregate one, in the order of the broker. A message is acknowledged
// when Handle has returned nil. After an error or a panic it is delivered again, after
// the wait that the error has or [BrokerConfig.RedeliveryDelay]; meanwhile those of
// other aggregates go on, and those of its own wait. While the error says that the
// database can't be worked with, all wait.
func (b *Broker) Subscribe(ctx context.Context, h outbox.Handler) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return ErrClosed
	}
	b.running.Add(1)
	defer b.running.Done()
	g, ok := b.groups[h.Name()]
	if !ok {
		g = &group{acked: make(map[int]bool), flight: make(map[int]*outgoing), due: make(map[int]time.Time), deliveries: make(map[int]int)}
		b.groups[h.Name()] = g
	}
	g.types, g.from = h.EventTypes(), 0
	b.mu.Unlock()

	concurrency := max(h.Limits().Concurrency, 1)
	s := &subscription{broker: b, name: h.Name(), group: g, room: concurrency, busy: make(map[aggregate]bool)}
	linkOf(ctx).add(s)
	engine := delivery.New(ctx, delivery.Config{
		Handler: h, Concurrency: concurrency,
		Backoff: b.cfg.RedeliveryDelay, MaxBackoff: b.cfg.RedeliveryDelay, NoJitter: true,
		Logger: b.cfg.Logger.With("consumer", h.Name()), Stats: b.cfg.Stats,
	})
	defer engine.Close(shutdownTimeout)
	for {
		d, err := s.next(ctx)
		if err != nil {
			if errors.Is(err, ErrClosed) {
				return err
			}
			return nil // ctx ended
		}
		for range d.open {
			engine.Submit(context.WithoutCancel(ctx), delivery.Message{
				Envelope: clone(d.envelope), Deliveries: d.number,
				Ack:   func(context.Context) { s.settle(d, true, 0) },
				Again: func(_ context.Context, after time.Duration) { s.settle(d, false, after) },
			})
		}
	}
}

// subscription is one call of Subscribe. What changes is under the broker's lock.
type subscription struct {
	broker *Broker
	name   string // the consumer's
	group  *group
	cut    bool               // its connection is lost
	room   int                // how many more messages may be out
	busy   map[aggregate]bool // those that have one out
}

// outgoing is a message that is out, in one copy or several.
type outgoing struct {
	sub      *subscription
	index    int
	envelope outbox.Envelope
	until    time.Time // when it is given up, with AckWait
	number   int       // of the delivery, from 1
	open     int       // copies
	failed   bool
	again    bool // asked for meanwhile: its acknowledgement is not the last word
	after    time.Duration
}

// next takes the first message that may be delivered, or waits for one.
func (s *subscription) next(ctx context.Context) (*outgoing, error) {
	for {
		d, due, changed, err := s.take(ctx)
		if d != nil || err != nil {
			return d, err
		}
		timer := time.NewTimer(due)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if latency := s.broker.cfg.Latency; latency != nil {
			timer.Reset(latency(ctx))
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
		}
	}
}

// take returns a message, or how long to wait unless something changes.
func (s *subscription) take(ctx context.Context) (d *outgoing, due time.Duration, changed <-chan struct{}, err error) {
	b, g := s.broker, s.group
	b.mu.Lock()
	defer b.mu.Unlock()
	due = time.Hour
	switch {
	case b.closed:
		return nil, 0, nil, ErrClosed
	case ctx.Err() != nil:
		return nil, 0, nil, ctx.Err()
	case b.down || b.paused || s.cut || s.room == 0:
		return nil, due, b.changed, nil
	}
	now := time.Now()
	for i := g.from; i < len(b.stored); i++ {
		e := b.stored[i]
		if g.acked[i] || !slices.Contains(g.types, e.Type) {
			if i == g.from {
				g.from++
			}
			continue
		}
		key := aggregate{e.AggregateType, e.AggregateID}
		if out := g.flight[i]; out != nil {
			if b.cfg.AckWait == 0 {
				continue
			}
			if wait := out.until.Sub(now); wait > 0 {
				due = min(due, wait)
				continue
			}
			delete(g.flight, i)
		}
		if s.busy[key] {
			continue
		}
		if wait := g.due[i].Sub(now); wait > 0 {
			due = min(due, wait)
			continue
		}
		s.busy[key] = true
		s.room--
		g.deliveries[i]++
		d = &outgoing{sub: s, index: i, envelope: e, until: now.Add(b.cfg.AckWait), number: g.deliveries[i], open: b.copies}
		g.flight[i] = d
		return d, 0, nil, nil
	}
	return nil, due, b.changed, nil
}

// settle ends a copy. With the last one the message is acknowledged, or due again. An
// acknowledgement that reaches a stopped broker is lost.
func (s *subscription) settle(d *outgoing, ok bool, after time.Duration) {
	b, g := s.broker, s.group
	b.change(func() {
		d.failed, d.after = d.failed || !ok, max(d.after, after)
		if d.open--; d.open > 0 {
			return
		}
		delete(s.busy, aggregate{d.envelope.AggregateType, d.envelope.AggregateID})
		s.room++
		current := g.flight[d.index] == d
		if current {
			delete(g.flight, d.index)
			delete(g.due, d.index)
		}
		switch {
		case s.cut, d.failed && !current:
		case d.failed:
			g.due[d.index] = time.Now().Add(d.after)
		case b.down:
			b.cfg.Stats.AckFailed.Add(1)
		case b.lostAcks > 0:
			b.lostAcks--
			b.cfg.Stats.AckFailed.Add(1)
		default:
			b.cfg.Stats.Acked.Add(1)
			if b.onAck != nil {
				b.onAck(s.name, d.envelope)
			}
			g.acked[d.index] = !d.again
		}
	})
}
