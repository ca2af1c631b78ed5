package outboxtest_test

import (
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

func newBroker(t *testing.T) *outboxtest.Broker {
	b := outboxtest.NewBroker(outboxtest.BrokerConfig{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(b.Close)
	return b
}

func TestPublisherSuite(t *testing.T) {
	brokersuite.RunPublisher(t, func(t *testing.T) brokersuite.PublisherFixture {
		b := newBroker(t)
		return brokersuite.PublisherFixture{
			Publisher: b,
			Stored:    func(*testing.T) []outbox.Envelope { return b.Published() },
			Stop:      func(*testing.T) { b.Stop() },
			Start:     func(*testing.T) { b.Start() },
			Stall:     func(*testing.T) { b.Pause() },
			Unstall:   func(*testing.T) { b.Resume() },
			FailOnce: func(_ *testing.T, id uuid.UUID) {
				var once sync.Once
				b.OnPublish(func(e outbox.Envelope) (err error) {
					if e.ID == id {
						once.Do(func() { err = outbox.PublishFailed(errors.New("once")) })
					}
					return err
				})
			},
		}
	})
}

func TestSubscriberSuite(t *testing.T) {
	brokersuite.RunSubscriber(t, func(t *testing.T) brokersuite.SubscriberFixture {
		stats := new(outbox.SubscribeStats)
		b := outboxtest.NewBroker(outboxtest.BrokerConfig{Logger: slog.New(slog.DiscardHandler), Stats: stats})
		t.Cleanup(b.Close)
		return brokersuite.SubscriberFixture{
			Publisher:      b,
			Subscribe:      b.Subscribe,
			Stats:          stats,
			Unacked:        func(_ *testing.T, consumer string) int { return b.Unacked(consumer) },
			Duplicate:      func(_ *testing.T, e outbox.Envelope) { b.Redeliver(e.ID) },
			Restart:        func(*testing.T) { b.Stop(); b.Start() },
			RawUnsupported: "the broker in memory carries envelopes, not bytes",
		}
	})
}
