package watermill

import (
	"context"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// Watermill's own Pub/Sub, from a publisher that returns after the handler: what is
// confirmed was handled, a failure is tried again, and order holds.
func TestGoChannel(t *testing.T) {
	t.Parallel()
	pubSub := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, nil)
	defer pubSub.Close()
	subscribed := make(chan struct{})
	var applied []int64
	failed := false
	cfg := subscribeConfig()
	cfg.Topic = func(eventType string) string { return eventType }
	h := newHandler(func(_ context.Context, e outbox.Envelope) error {
		if e.AggregateVersion == 3 && !failed {
			failed = true
			return errors.New("once")
		}
		applied = append(applied, e.AggregateVersion)
		return nil
	})
	stop := subscribe(t, subscribeFunc(func(ctx context.Context, topic string) (<-chan *message.Message, error) {
		defer func() {
			if topic == brokersuite.TypeB { // the last one
				close(subscribed)
			}
		}()
		return pubSub.Subscribe(ctx, topic)
	}), h, cfg)
	receive(t, "the handler has subscribed", subscribed)

	p := newPublisher(t, pubSub, PublisherConfig{Topic: cfg.Topic})
	var sent []outbox.Envelope
	for version := int64(1); version <= 6; version++ {
		sent = append(sent, brokersuite.Event("a", version))
	}
	if err := errors.Join(p.Publish(t.Context(), sent)...); err != nil {
		t.Fatal(err)
	}
	stop()
	if n := len(applied); n != 6 {
		t.Errorf("%d were applied before they were confirmed, want 6", n)
	}
	for i, version := range applied {
		if version != int64(i+1) {
			t.Errorf("applied %v", applied)
			break
		}
	}
	if n := cfg.Stats.Acked.Load(); n != 6 {
		t.Errorf("%d acknowledgements, want 6", n)
	}
}
