package watermill

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// topic takes all events of the suites, those among them that no handler wants.
const topic = "orders"

func oneTopic(string) string { return topic }

func newPublisher(t *testing.T, wrapped message.Publisher, cfg PublisherConfig) *Publisher {
	t.Helper()
	cfg.Synchronous = true
	if cfg.Topic == nil {
		cfg.Topic = oneTopic
	}
	p, err := NewPublisher(wrapped, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// subscribeConfig repeats within milliseconds and says nothing.
func subscribeConfig() SubscribeConfig {
	return SubscribeConfig{
		Topic: oneTopic, Backoff: 10 * time.Millisecond, MaxBackoff: 100 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler), Stats: new(outbox.SubscribeStats),
	}
}

func decodeAll(t *testing.T, messages []*message.Message) []outbox.Envelope {
	t.Helper()
	var all []outbox.Envelope
	for i, m := range messages {
		e, err := read(m).envelope(m.Payload)
		if err != nil {
			t.Fatalf("stored message %d: %v", i, err)
		}
		all = append(all, e)
	}
	return all
}

func TestPublisherSuite(t *testing.T) {
	t.Parallel()
	brokersuite.RunPublisher(t, func(t *testing.T) brokersuite.PublisherFixture {
		b := newPubSub(t, 1)
		return brokersuite.PublisherFixture{
			Publisher: newPublisher(t, b, PublisherConfig{}),
			Stored:    func(t *testing.T) []outbox.Envelope { return decodeAll(t, b.stored(topic)) },
			Stop:      func(*testing.T) { b.stop() },
			Start:     func(*testing.T) { b.start() },
			Stall:     func(*testing.T) { b.change(func() { b.stalled = true }) },
			Unstall:   func(*testing.T) { b.change(func() { b.stalled = false }) },
			FailOnce: func(_ *testing.T, id uuid.UUID) {
				b.setHook(func(_ string, m *message.Message) error {
					if m.UUID != id.String() {
						return nil
					}
					b.setHook(nil)
					return errors.New("once")
				})
			},
		}
	})
}

func TestSubscriberSuite(t *testing.T) {
	t.Parallel()
	brokersuite.RunSubscriber(t, func(t *testing.T) brokersuite.SubscriberFixture {
		b := newPubSub(t, 1000)
		cfg := subscribeConfig()
		return brokersuite.SubscriberFixture{
			Publisher: newPublisher(t, b, PublisherConfig{}),
			Subscribe: func(ctx context.Context, h outbox.Handler) error {
				return Subscribe(ctx, b.subscriber(h.Name()), h, cfg)
			},
			Stats:     cfg.Stats,
			Unacked:   func(_ *testing.T, consumer string) int { return b.unacked(consumer) },
			Duplicate: func(t *testing.T, e outbox.Envelope) { put(t, b, e) },
			Restart:   func(*testing.T) { b.stop(); b.start() },
			Raw: func(_ *testing.T, body []byte, headers map[string]string) {
				m := message.NewMessage("", body)
				for name, value := range headers {
					m.Metadata[name] = value
				}
				b.put(topic, m)
			},
		}
	})
}

// put stores an event past the publisher.
func put(t *testing.T, b *pubSub, e outbox.Envelope) {
	t.Helper()
	m, err := encode(e)
	if err != nil {
		t.Fatal(err)
	}
	b.put(topic, m)
}
