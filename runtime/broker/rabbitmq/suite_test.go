package rabbitmq

import (
	"context"
	"sync"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// The broker goes down for the suite by its address: it keeps what it holds. How it dies
// is a test of its own.
func TestPublisherSuite(t *testing.T) {
	t.Parallel()
	brokersuite.RunPublisher(t, func(t *testing.T) brokersuite.PublisherFixture {
		r := newRig(t)
		// A full queue refuses what fails once.
		r.declare("full", amqp.Table{"x-max-length": 0, "x-overflow": "reject-publish"})
		var failing sync.Map
		p := r.publisher(PublisherConfig{Route: func(e outbox.Envelope) (string, string) {
			if _, fail := failing.LoadAndDelete(e.ID); fail {
				return "", r.queue("full")
			}
			return r.name, e.Type
		}})
		// Connected, so that a broker that stalls has been handed something.
		if l, err := p.sender.connected(t.Context()); err != nil || l.checkExchange(t.Context(), r.name) != nil {
			t.Fatalf("can't connect: %v", err)
		}
		return brokersuite.PublisherFixture{
			Publisher: p,
			Stored:    func(*testing.T) []outbox.Envelope { return r.stored(r.queue("projector")) },
			Stop:      func(*testing.T) { r.proxy.takeDown() },
			Start:     func(*testing.T) { r.proxy.bringUp() },
			Stall:     func(*testing.T) { r.proxy.muteServer(true) },
			Unstall:   func(*testing.T) { r.proxy.muteServer(false); r.proxy.cut() },
			FailOnce:  func(_ *testing.T, id uuid.UUID) { failing.Store(id, true) },
		}
	})
}

// It restarts the server: not in parallel with other tests.
func TestSubscriberSuite(t *testing.T) {
	brokersuite.RunSubscriber(t, func(t *testing.T) brokersuite.SubscriberFixture {
		r := newRig(t)
		p := r.publisher(PublisherConfig{})
		cfg := r.subscribeConfig()
		cfg.Stats = new(outbox.SubscribeStats)
		return brokersuite.SubscriberFixture{
			Publisher: p,
			Subscribe: func(ctx context.Context, h outbox.Handler) error { return Subscribe(ctx, r.via(), h, cfg) },
			Stats:     cfg.Stats,
			Unacked:   func(_ *testing.T, consumer string) int { return r.unacked(consumer) },
			Duplicate: func(t *testing.T, e outbox.Envelope) {
				if err := publishOne(t, p, e); err != nil {
					t.Fatal(err)
				}
			},
			Restart: func(t *testing.T) {
				if err := r.server.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
			Raw: func(_ *testing.T, body []byte, headers map[string]string) { r.put(body, headers) },
		}
	})
}
