package natsjs

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

func TestForeignConsumerIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	nothing := funcHandler(func(context.Context, outbox.Envelope) error { return nil })
	good := jetstream.ConsumerConfig{
		Durable: "projector", AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: -1, AckWait: time.Minute, MaxAckPending: 7,
		FilterSubjects: []string{"orders.order.cancelled", "orders.order.accepted"},
	}
	for name, change := range map[string]func(*jetstream.ConsumerConfig){
		"filter":         func(c *jetstream.ConsumerConfig) { c.FilterSubjects = c.FilterSubjects[:1] },
		"no filter":      func(c *jetstream.ConsumerConfig) { c.FilterSubjects = nil },
		"ack policy":     func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckAllPolicy },
		"no acks":        func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckNonePolicy; c.MaxAckPending = 0 },
		"delivery limit": func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 5 },
		"deliver policy": func(c *jetstream.ConsumerConfig) { c.DeliverPolicy = jetstream.DeliverLastPolicy },
		"max expires":    func(c *jetstream.ConsumerConfig) { c.MaxRequestExpires = 500 * time.Millisecond },
		"other handler":  func(c *jetstream.ConsumerConfig) { c.Metadata = map[string]string{metadataName: "other"} },
	} {
		cfg := good
		change(&cfg)
		if _, err := r.js.CreateConsumer(t.Context(), stream, cfg); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := Subscribe(ctx, r.via, nothing, subscribeConfig())
		cancel()
		if !errors.Is(err, ErrConsumerMismatch) {
			t.Errorf("%s: %v, want ErrConsumerMismatch", name, err)
		}
		if err := r.js.DeleteConsumer(t.Context(), stream, "projector"); err != nil {
			t.Fatal(err)
		}
	}

	// What an operator may tune is used as it is.
	if _, err := r.js.CreateConsumer(t.Context(), stream, good); err != nil {
		t.Fatal(err)
	}
	handled := make(chan struct{})
	r.subscribe(funcHandler(func(context.Context, outbox.Envelope) error { close(handled); return nil }), subscribeConfig())
	r.publish(brokersuite.Event("a", 1))
	<-handled
	c, err := r.js.Consumer(t.Context(), stream, "projector")
	if err != nil {
		t.Fatal(err)
	}
	if have := c.CachedInfo().Config; have.AckWait != time.Minute || have.MaxAckPending != 7 {
		t.Errorf("the consumer's settings were changed: %+v", have)
	}
}

func TestDurableName(t *testing.T) {
	t.Parallel()
	if got := DurableName("order_projector-2"); got != "order_projector-2" {
		t.Errorf("a plain name became %q", got)
	}
	if got := DurableName("orders.planner"); got != "orders_planner-cc715345" { // another name would read everything anew
		t.Errorf("orders.planner became %q", got)
	}
	seen := make(map[string]string)
	for _, name := range []string{"a.b", "a_b", "a b", "a*b", "a>b", "a/b", "ä", "a-b", "A_B"} {
		durable := DurableName(name)
		if other, taken := seen[durable]; taken {
			t.Errorf("%q and %q share the consumer %q", name, other, durable)
		}
		seen[durable] = name
		if strings.ContainsAny(durable, ". *>/\\\t") {
			t.Errorf("%q has become %q, which NATS doesn't allow", name, durable)
		}
	}
}
