package cloudevents

import (
	"context"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// carrier is one of our packages for brokers, with its broker.
type carrier struct {
	name  string
	names names

	// send publishes an event with our publisher and returns what the broker has.
	send func(t *testing.T, e outbox.Envelope) wire

	// receive puts a message on the broker and hands it to the handler with our
	// subscriber, until ctx ends.
	receive func(t *testing.T, ctx context.Context, w wire, h outbox.Handler) error
}

var carriers = []carrier{natsCarrier, rabbitCarrier, kafkaCarrier, watermillCarrier}

// catcher is a handler that keeps what it gets.
type catcher struct {
	events chan outbox.Envelope
	parked chan error
}

func (catcher) Name() string          { return "catcher" }
func (catcher) EventTypes() []string  { return []string{brokersuite.TypeA} }
func (catcher) Limits() outbox.Limits { return outbox.Limits{} }

func (c catcher) Park(_ context.Context, m outbox.Unreadable) error {
	c.parked <- m.Reason
	return nil
}

func (c catcher) Handle(_ context.Context, e outbox.Envelope) (outbox.Handling, error) {
	c.events <- e
	return outbox.Applied, nil
}

// deliver returns what our subscriber makes of a message.
func (c carrier) deliver(t *testing.T, w wire) outbox.Envelope {
	t.Helper()
	h := catcher{make(chan outbox.Envelope, 1), make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- c.receive(t, ctx, w, h) }()
	defer func() {
		cancel()
		if err := <-result; err != nil {
			t.Errorf("Subscribe: %v", err)
		}
	}()
	select {
	case e := <-h.events:
		return e
	case reason := <-h.parked:
		t.Fatalf("it was parked: %v", reason)
	case <-time.After(20 * time.Second):
		t.Fatal("it was not delivered")
	}
	panic("unreachable")
}
