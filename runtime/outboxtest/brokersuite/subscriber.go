package brokersuite

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// SubscriberFixture is a subscriber, its broker and a way to feed it, for one test.
type SubscriberFixture struct {
	Publisher outbox.Publisher

	// Subscribe blocks until ctx ends. It handles as many messages at a time as the
	// handler's Limits say, one when they don't. After a handler's error that
	// has no wait of its own the message should come again within milliseconds.
	Subscribe func(ctx context.Context, h outbox.Handler) error

	// Stats are what all calls of Subscribe count up.
	Stats *outbox.SubscribeStats

	// Unacked asks the broker how many messages the consumer has not acknowledged.
	Unacked func(t *testing.T, consumer string) int

	// Duplicate delivers a stored event to all consumers once more.
	Duplicate func(t *testing.T, e outbox.Envelope)

	// Restart takes the broker down and brings it back.
	Restart func(t *testing.T)

	// Raw puts a message on the broker, as it is, where consumers find the events
	// of TypeA: a body and headers. The header "content-type" goes where the
	// broker's protocol binding for CloudEvents has the content type.
	Raw func(t *testing.T, body []byte, headers map[string]string)

	// RawUnsupported is why there is no Raw, for a broker that carries envelopes
	// only. The tests that need it are then skipped, with this reason.
	RawUnsupported string
}

// RunSubscriber runs the suite. factory makes a fresh broker for each test.
func RunSubscriber(t *testing.T, factory func(t *testing.T) SubscriberFixture) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, SubscriberFixture)
	}{
		{"an event arrives as it was", deliveredAsItWas},
		{"a trace arrives", traceArrives},
		{"acknowledged after Handle only", ackedAfterHandle},
		{"a parked event is acknowledged", parkedIsAcked},
		{"an error leads to a redelivery", errorRedelivers},
		{"a panic leads to a redelivery", panicRedelivers},
		{"the handler's wait is kept", waitIsKept},
		{"other event types stay away", otherTypesStayAway},
		{"a duplicate reaches the handler", duplicateReachesHandler},
		{"every consumer gets every event", everyConsumer},
		{"goes on where it stopped", goesOn},
		{"a running handler finishes", runningHandlerFinishes},
		{"the broker restarts", brokerRestarts},
		{"order within an aggregate", deliveryOrder},
		{"aggregates beside each other", aggregatesBesideEachOther},
		{"a poison message holds up nobody", poisonHoldsUpNobody},
		{"a pause", pauseRedeliversNothing},
		{"an unreadable message is parked once", unreadableIsParked},
		{"parking is repeated until it succeeds", parkingIsRepeated},
		{"structured mode", structuredMode},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, factory(t)) })
	}
}

// start subscribes in the background. stop ends the subscription, and fails the
// test unless Subscribe returns nil; it may be called twice.
func start(t *testing.T, f SubscriberFixture, h outbox.Handler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- f.Subscribe(ctx, h) }()
	stopped := false
	stop = func() {
		t.Helper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := receive(t, "Subscribe returns when its context ends", result); err != nil {
			t.Errorf("Subscribe: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func deliveredAsItWas(t *testing.T, f SubscriberFixture) {
	sent := awkwardEvents()
	publish(t, f.Publisher, sent...)
	h := newHandler("projector", nil)
	start(t, f, h)
	got := make(map[uuid.UUID]outbox.Envelope)
	for _, e := range h.wait(t, len(sent)) {
		got[e.ID] = e
	}
	for _, want := range sent {
		if diff := compare(want, got[want.ID]); diff != "" {
			t.Errorf("event changed on its way (-sent +handled):\n%s", diff)
		}
	}
}

func ackedAfterHandle(t *testing.T, f SubscriberFixture) {
	release := make(chan struct{})
	h := newHandler("projector", func(context.Context, outbox.Envelope) error {
		<-release
		return nil
	})
	defer start(t, f, h)()
	publish(t, f.Publisher, Event("order-1", 1))
	h.wait(t, 1)
	if n := f.Unacked(t, h.name); n != 1 {
		t.Errorf("%d messages unacknowledged while the handler runs, want 1", n)
	}
	close(release)
	eventually(t, "the message is acknowledged", func() bool { return f.Unacked(t, h.name) == 0 })
}

func errorRedelivers(t *testing.T, f SubscriberFixture) {
	var calls atomic.Int64
	h := newHandler("projector", func(ctx context.Context, _ outbox.Envelope) error {
		n := calls.Add(1)
		if got := outbox.IsRedelivery(ctx); got != (n > 1) {
			t.Errorf("delivery %d is a redelivery: %v", n, got)
		}
		if n < 4 {
			return errors.New("not yet")
		}
		return nil
	})
	start(t, f, h)
	sent := awkwardEvents()[9]
	sent.Headers = map[string]string{"traceparent": "00-1-2-01"}
	publish(t, f.Publisher, sent)
	for i, e := range h.wait(t, 4) {
		if diff := compare(sent, e); diff != "" {
			t.Errorf("delivery %d (-sent +handled):\n%s", i+1, diff)
		}
	}
	eventually(t, "the message is acknowledged", func() bool { return f.Unacked(t, h.name) == 0 })
	if n := len(h.all()); n != 4 {
		t.Errorf("%d deliveries, want 4", n)
	}
}

func panicRedelivers(t *testing.T, f SubscriberFixture) {
	var calls atomic.Int64
	h := newHandler("projector", func(context.Context, outbox.Envelope) error {
		if calls.Add(1) == 1 {
			panic("scripted")
		}
		return nil
	})
	start(t, f, h)
	publish(t, f.Publisher, Event("order-1", 1))
	h.wait(t, 2)
	eventually(t, "the message is acknowledged", func() bool { return f.Unacked(t, h.name) == 0 })
}

func otherTypesStayAway(t *testing.T, f SubscriberFixture) {
	h := newHandler("projector", nil)
	start(t, f, h)
	other := Event("order-1", 1)
	other.Type = TypeOther
	publish(t, f.Publisher, other, Event("order-1", 2))
	if got := h.wait(t, 1); got[0].Type != TypeA {
		t.Errorf("the handler got an event of type %s", got[0].Type)
	}
	eventually(t, "nothing waits", func() bool { return f.Unacked(t, h.name) == 0 })
	if n := len(h.all()); n != 1 {
		t.Errorf("%d deliveries, want 1", n)
	}
}

func duplicateReachesHandler(t *testing.T, f SubscriberFixture) {
	h := newHandler("projector", nil)
	start(t, f, h)
	e := Event("order-1", 1)
	publish(t, f.Publisher, e)
	h.wait(t, 1)
	eventually(t, "the message is acknowledged", func() bool { return f.Unacked(t, h.name) == 0 })
	f.Duplicate(t, e)
	if got := h.wait(t, 2); got[1].ID != e.ID {
		t.Errorf("the second delivery is event %s, want %s again", got[1].ID, e.ID)
	}
}

func everyConsumer(t *testing.T, f SubscriberFixture) {
	first, second := newHandler("first", nil), newHandler("sec.ond", nil)
	start(t, f, first)
	start(t, f, second)
	sent := events("order-1", 5)
	publish(t, f.Publisher, sent...)
	compareIDs(t, first.wait(t, 5), sent)
	compareIDs(t, second.wait(t, 5), sent)
}

func goesOn(t *testing.T, f SubscriberFixture) {
	sent := events("order-1", 6)
	h := newHandler("projector", nil)
	stop := start(t, f, h)
	publish(t, f.Publisher, sent[:3]...)
	h.wait(t, 3)
	eventually(t, "the first are acknowledged", func() bool { return f.Unacked(t, h.name) == 0 })
	stop()

	publish(t, f.Publisher, sent[3:]...)
	again := newHandler("projector", nil)
	start(t, f, again)
	compareIDs(t, again.wait(t, 3), sent[3:])
}

func runningHandlerFinishes(t *testing.T, f SubscriberFixture) {
	entered, release := make(chan struct{}), make(chan struct{})
	var finished atomic.Bool
	h := newHandler("projector", func(ctx context.Context, _ outbox.Envelope) error {
		close(entered)
		<-release
		if err := ctx.Err(); err != nil {
			return err
		}
		finished.Store(true)
		return nil
	})
	publish(t, f.Publisher, Event("order-1", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- f.Subscribe(ctx, h) }()
	receive(t, "the handler is called", entered)
	cancel()
	select {
	case err := <-result:
		t.Fatalf("Subscribe returned while a handler was running: %v", err)
	default:
	}
	close(release)
	if err := receive(t, "Subscribe returns", result); err != nil {
		t.Errorf("Subscribe: %v", err)
	}
	if !finished.Load() {
		t.Error("the handler's context ended with Subscribe's")
	}
	acknowledged(t, f, h) // what has reached the broker may take a moment to count there
}

func brokerRestarts(t *testing.T, f SubscriberFixture) {
	h := newHandler("projector", nil)
	start(t, f, h)
	sent := events("order-1", 6)
	publish(t, f.Publisher, sent[:3]...)
	h.wait(t, 3)
	f.Restart(t)
	publish(t, f.Publisher, sent[3:]...)
	eventually(t, "all events arrive", func() bool {
		got := h.all()
		return !slices.ContainsFunc(sent, func(want outbox.Envelope) bool {
			return !slices.ContainsFunc(got, func(e outbox.Envelope) bool { return e.ID == want.ID })
		})
	})
	acknowledged(t, f, h)
}

func deliveryOrder(t *testing.T, f SubscriberFixture) {
	failed := make(map[uuid.UUID]bool)
	var applied []outbox.Envelope
	done := make(chan struct{})
	const n = 40
	h := newHandler("projector", func(_ context.Context, e outbox.Envelope) error {
		// Calls don't overlap: one message at a time.
		if e.AggregateVersion%8 == 3 && !failed[e.ID] {
			failed[e.ID] = true
			return errors.New("once")
		}
		applied = append(applied, e)
		if len(applied) == n {
			close(done)
		}
		return nil
	})
	sent := events("order-1", n)
	publish(t, f.Publisher, sent...)
	stop := start(t, f, h)
	receive(t, "all events are applied", done)
	stop()
	compareIDs(t, applied, sent)
}
