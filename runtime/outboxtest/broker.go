package outboxtest

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// BrokerConfig has a broker's settings. The zero value is good.
type BrokerConfig struct {
	// RedeliveryDelay is the wait before a message that a handler failed on is
	// delivered again, unless the handler's error says how long that is. Defaults
	// to 10 ms.
	RedeliveryDelay time.Duration

	// Latency is how long a subscriber, whose context it gets, takes to learn that there may
	// be something for it. Simulations give each its own, so that the one who gets a message
	// is the same each time. Defaults to none.
	Latency func(ctx context.Context) time.Duration

	// AckWait is how long a message may be out without an answer before it is delivered
	// again, to whoever has room: its handler may have been stopped. A late
	// acknowledgement counts all the same. Defaults to for ever.
	AckWait time.Duration

	// Logger gets handlers' errors and panics. Defaults to slog.Default().
	Logger *slog.Logger

	// Stats, when set, is counted up by all subscriptions.
	Stats *outbox.SubscribeStats
}

// Broker is a broker in memory. It implements [outbox.Publisher], and
// [Broker.Subscribe] delivers to handlers at least once. It keeps every message
// that it has confirmed, repeats of one event among them: unlike JetStream it drops
// no duplicates, so that a test sees what a consumer must absorb.
//
// All methods may be called from any goroutine, and it works inside a bubble of
// testing/synctest.
type Broker struct {
	cfg BrokerConfig

	mu      sync.Mutex
	changed chan struct{} // closed, and made anew, whenever anything below changes
	stored  []outbox.Envelope
	groups  map[string]*group
	running sync.WaitGroup // calls of Subscribe
	closed  bool
	down    bool
	paused  bool
	copies  int // of every delivery

	failures     []outbox.FailureKind
	lostConfirms int
	lostAcks     int
	hook         func(outbox.Envelope) error
	onAck        func(consumer string, e outbox.Envelope)
}

// ErrClosed is returned by a broker after Close.
var ErrClosed = errors.New("outboxtest: the broker is closed")

// NewBroker makes a broker. Close it when handlers have subscribed.
func NewBroker(cfg BrokerConfig) *Broker {
	if cfg.RedeliveryDelay == 0 {
		cfg.RedeliveryDelay = 10 * time.Millisecond
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Stats == nil {
		cfg.Stats = new(outbox.SubscribeStats)
	}
	return &Broker{cfg: cfg, changed: make(chan struct{}), groups: make(map[string]*group), copies: 1}
}

// change runs f under the lock and wakes everyone who waits.
func (b *Broker) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	close(b.changed)
	b.changed = make(chan struct{})
}

// Close ends every Subscribe with [ErrClosed] and returns when they have returned.
func (b *Broker) Close() {
	b.change(func() { b.closed = true })
	b.running.Wait()
}

// Published returns what was confirmed, in the broker's order, repeats included,
// and also what was stored while its confirm was lost.
func (b *Broker) Published() []outbox.Envelope {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]outbox.Envelope, len(b.stored))
	for i, e := range b.stored {
		all[i] = clone(e)
	}
	return all
}

// FailNext lets the next messages fail, one of each kind given, in order. None of
// them is stored. See [Broker.LoseConfirms] for an unknown outcome of a message
// that is stored.
func (b *Broker) FailNext(kinds ...outbox.FailureKind) {
	b.change(func() { b.failures = append(b.failures, kinds...) })
}

// LoseConfirms stores the next n messages and answers PublishUnknown: the broker
// has them and the publisher doesn't know.
func (b *Broker) LoseConfirms(n int) { b.change(func() { b.lostConfirms = n }) }

// OnPublish calls hook for every message before it is stored. An error from it is the
// message's result, as it is. nil removes the hook.
func (b *Broker) OnPublish(hook func(outbox.Envelope) error) { b.change(func() { b.hook = hook }) }

// OnAck calls hook with every acknowledgement that counts, before it does. The hook must not
// call the broker. nil removes it.
func (b *Broker) OnAck(hook func(consumer string, e outbox.Envelope)) {
	b.change(func() { b.onAck = hook })
}

// Pause lets the broker take messages without answering: Publish waits until
// Resume, and then stores, or until its context ends, and then answers
// PublishUnknown. Handlers get nothing.
func (b *Broker) Pause() { b.change(func() { b.paused = true }) }

// Resume ends Pause.
func (b *Broker) Resume() { b.change(func() { b.paused = false }) }

// Stop takes the broker down: Publish answers PublishUnavailable, handlers get
// nothing. What is stored stays.
func (b *Broker) Stop() { b.change(func() { b.down = true }) }

// Start ends Stop. A message that was delivered and not acknowledged before is
// delivered again.
func (b *Broker) Start() { b.change(func() { b.down = false }) }

// Deliver lets every delivery happen n times in a row, to each consumer. It counts
// for deliveries that begin later.
func (b *Broker) Deliver(n int) { b.change(func() { b.copies = max(n, 1) }) }

// Redeliver delivers an event again to every consumer, acknowledged or not. One whose
// handler is still running is delivered again when that has ended.
func (b *Broker) Redeliver(id uuid.UUID) {
	b.change(func() {
		for i, e := range b.stored {
			if e.ID == id {
				for _, g := range b.groups {
					delete(g.acked, i)
					delete(g.due, i)
					g.from = min(g.from, i)
					if out := g.flight[i]; out != nil {
						out.again = true
					}
				}
			}
		}
	})
}

// LoseAcks loses the next n acknowledgements of handlers: the messages come again.
func (b *Broker) LoseAcks(n int) { b.change(func() { b.lostAcks = n }) }

// Unacked returns how many of the stored messages the consumer has not
// acknowledged, among those of its event types.
func (b *Broker) Unacked(consumer string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	g, ok := b.groups[consumer]
	if !ok {
		return len(b.stored)
	}
	n := 0
	for i, e := range b.stored {
		if !g.acked[i] && slices.Contains(g.types, e.Type) {
			n++
		}
	}
	return n
}

// unackedOf reports whether the consumer has a message of an event yet to acknowledge.
func (b *Broker) unackedOf(consumer string, id uuid.UUID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.groups[consumer]
	for i, e := range b.stored {
		if e.ID == id && (g == nil || !g.acked[i]) {
			return true
		}
	}
	return false
}
