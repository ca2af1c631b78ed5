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

// oneStream has one event type, in the stream ORDERS.
func oneStream() outbox.Topology {
	return outbox.Topology{
		Events:    []outbox.EventTopology{{Type: brokersuite.TypeA, Stream: stream, Key: "orders.accepted"}},
		Consumers: []outbox.ConsumerTopology{{Name: "projector", Events: []string{brokersuite.TypeA}}},
	}
}

// acceptedHandler handles TypeA alone.
type acceptedHandler struct{ funcHandler }

func (acceptedHandler) EventTypes() []string { return []string{brokersuite.TypeA} }

// Settings under which an event that is confirmed never arrives.
func TestSettingsThatLoseEvents(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*jetstream.StreamConfig, *jetstream.ConsumerConfig){
		"subject transform: have orders.> to v2.orders.>, want none for orders.accepted": func(s *jetstream.StreamConfig, _ *jetstream.ConsumerConfig) {
			s.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "orders.>", Destination: "v2.orders.>"}
		},
		"deliver policy: have new, want all": func(_ *jetstream.StreamConfig, c *jetstream.ConsumerConfig) {
			c.DeliverPolicy = jetstream.DeliverNewPolicy
		},
		"consumer projector of stream ORDERS: inactive threshold: have 1h0m0s, want none, with retention interest": func(s *jetstream.StreamConfig, c *jetstream.ConsumerConfig) {
			s.Retention, c.InactiveThreshold = jetstream.InterestPolicy, time.Hour
		},
		"consumer projector of stream ORDERS: inactive threshold: have 1h0m0s, want none, with retention workqueue": func(s *jetstream.StreamConfig, c *jetstream.ConsumerConfig) {
			s.Retention, s.ConsumerLimits.InactiveThreshold = jetstream.WorkQueuePolicy, time.Hour
		},
	} {
		js := emptyServer(t)
		streamConfig := jetstream.StreamConfig{Name: stream, Subjects: []string{"orders.>"}}
		consumer := consumerConfig("projector", source{durable: "projector", subjects: []string{"orders.accepted"}}, time.Minute, 7)
		change(&streamConfig, &consumer)
		if _, err := js.CreateStream(t.Context(), streamConfig); err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		if _, err := js.CreateConsumer(t.Context(), stream, consumer); err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		_, err := Ensure(t.Context(), js, oneStream(), EnsureConfig{})
		if text := strings.Join(lines(t, err), "\n"); !strings.Contains(text, want) {
			t.Errorf("Ensure: %s, want %s", text, want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err = Subscribe(ctx, js, acceptedHandler{}, SubscribeConfig{Topology: oneStream()})
		cancel()
		if !errors.Is(err, ErrConsumerMismatch) || !strings.Contains(err.Error(), want) {
			t.Errorf("Subscribe: %v, want ErrConsumerMismatch with %s", err, want)
		}
	}
}

// A consumer that the server makes in such a stream would inherit its limit.
func TestStreamWhoseConsumersGo(t *testing.T) {
	t.Parallel()
	js := emptyServer(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: stream, Subjects: []string{"orders.>"}, Retention: jetstream.InterestPolicy,
		ConsumerLimits: jetstream.StreamConsumerLimits{InactiveThreshold: time.Hour},
	}); err != nil {
		t.Fatal(err)
	}
	_, err := Ensure(t.Context(), js, oneStream(), EnsureConfig{Create: true})
	want := "stream ORDERS: consumer limit inactive_threshold: have 1h0m0s, want none, with retention interest"
	if got := lines(t, err); len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Where the stream keeps what nobody has asked for, a consumer that goes is worth a note.
func TestConsumerThatGoesIsNoted(t *testing.T) {
	t.Parallel()
	js := emptyServer(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{"orders.>"}}); err != nil {
		t.Fatal(err)
	}
	cfg := consumerConfig("projector", source{durable: "projector", subjects: []string{"orders.accepted"}}, time.Minute, 7)
	cfg.InactiveThreshold = time.Hour
	if _, err := js.CreateConsumer(t.Context(), stream, cfg); err != nil {
		t.Fatal(err)
	}
	report, err := Ensure(t.Context(), js, oneStream(), EnsureConfig{})
	if text := strings.Join(report.Notes, "\n"); err != nil || !strings.Contains(text, "inactive_threshold 1h0m0s") {
		t.Errorf("notes %s, error %v", text, err)
	}
}

// Subjects are what the stream stores: one who names them knows of the transform. So
// does one whose events it leaves alone.
func TestTransformThatChangesNothing(t *testing.T) {
	t.Parallel()
	accepted := source{subjects: []string{"orders.accepted"}}
	for _, test := range []struct {
		from source
		have jetstream.SubjectTransformConfig
	}{
		{source{subjects: []string{"orders.accepted"}, stored: true}, jetstream.SubjectTransformConfig{Destination: "v2.>"}},
		{accepted, jetstream.SubjectTransformConfig{Source: "legacy.>", Destination: "orders.>"}},
		{accepted, jetstream.SubjectTransformConfig{Source: "orders.>", Destination: "orders.>"}},
	} {
		var d differences
		if compareTransform(&d, test.from, &test.have); len(d.all) != 0 {
			t.Errorf("%+v: %v", test.have, d.all)
		}
	}
	var d differences
	if compareTransform(&d, accepted, &jetstream.SubjectTransformConfig{Destination: "v2.>"}); len(d.all) != 1 {
		t.Errorf("a transform of all: %v", d.all)
	}
}
