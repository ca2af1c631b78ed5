package cloudevents

import (
	"context"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/outboxgen/outboxgen/runtime/broker/watermill"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func watermillTopic(string) string { return "orders" }

var watermillCarrier = carrier{
	name:  "watermill",
	names: names{prefix: "ce_", contentType: "content-type"},
	send: func(t *testing.T, e outbox.Envelope) wire {
		pubSub := goChannel(t)
		p, err := watermill.NewPublisher(pubSub, watermill.PublisherConfig{Synchronous: true, Topic: watermillTopic})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if err := p.Publish(t.Context(), []outbox.Envelope{e})[0]; err != nil {
			t.Fatal(err)
		}
		messages, err := pubSub.Subscribe(t.Context(), watermillTopic(e.Type))
		if err != nil {
			t.Fatal(err)
		}
		m := <-messages
		m.Ack()
		return wire{headers: m.Metadata, body: m.Payload}
	},
	receive: func(t *testing.T, ctx context.Context, w wire, h outbox.Handler) error {
		pubSub := goChannel(t)
		m := message.NewMessage("", w.body)
		m.Metadata = w.headers
		if err := pubSub.Publish(watermillTopic(""), m); err != nil {
			return err
		}
		return watermill.Subscribe(ctx, pubSub, h, watermill.SubscribeConfig{Topic: watermillTopic})
	},
}

// goChannel keeps messages for who subscribes later.
func goChannel(t *testing.T) *gochannel.GoChannel {
	pubSub := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, nil)
	t.Cleanup(func() { _ = pubSub.Close() })
	return pubSub
}
