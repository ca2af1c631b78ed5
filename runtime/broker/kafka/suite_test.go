package kafka

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

func TestPublisherSuite(t *testing.T) {
	t.Parallel()
	brokersuite.RunPublisher(t, func(t *testing.T) brokersuite.PublisherFixture {
		r := newRig(t, 3)
		p := r.publisher(PublisherConfig{AckTimeout: 2 * time.Second})
		return brokersuite.PublisherFixture{
			Publisher: p,
			Stored:    func(*testing.T) []outbox.Envelope { return r.stored() },
			Stop:      func(*testing.T) { r.cluster.Close() },
			Start:     func(*testing.T) { r.start() },
			Stall: func(*testing.T) {
				r.publish(p, events(1, 1)) // connected, so that the broker is handed what follows
				r.network.setMute(true)
			},
			Unstall: func(*testing.T) { r.network.setMute(false); r.network.cut() },
			FailOnce: func(_ *testing.T, id uuid.UUID) {
				// Once for us; franz-go tries again by itself.
				r.refuse(kerr.NotEnoughReplicas, recordRetries+1, id)
			},
		}
	})
}

func TestSubscriberSuite(t *testing.T) {
	t.Parallel()
	brokersuite.RunSubscriber(t, func(t *testing.T) brokersuite.SubscriberFixture {
		r := newRig(t, 1)
		p := r.publisher(PublisherConfig{})
		cfg := subscribeConfig()
		cfg.Stats = new(outbox.SubscribeStats)
		return brokersuite.SubscriberFixture{
			Publisher: p,
			Subscribe: func(ctx context.Context, h outbox.Handler) error { return Subscribe(ctx, r.via(), h, cfg) },
			Stats:     cfg.Stats,
			Unacked:   func(_ *testing.T, consumer string) int { return r.unacked(consumer) },
			// Kafka drops no repeat of another call.
			Duplicate: func(_ *testing.T, e outbox.Envelope) { r.publish(p, []outbox.Envelope{e}) },
			Restart:   func(*testing.T) { r.cluster.Close(); r.start() },
			Raw:       func(_ *testing.T, body []byte, headers map[string]string) { r.put(body, headers) },
		}
	})
}
