package brokersuite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// acknowledged waits until the broker has nothing more for the consumer.
func acknowledged(t *testing.T, f SubscriberFixture, h *handler) {
	t.Helper()
	eventually(t, "everything is acknowledged", func() bool { return f.Unacked(t, h.name) == 0 })
}

func traceArrives(t *testing.T, f SubscriberFixture) {
	want := outbox.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "a=1"}
	e := Event("order-1", 1)
	e.Headers = map[string]string{"traceparent": want.Parent, "tracestate": want.State}
	publish(t, f.Publisher, e)
	h := newHandler("projector", nil)
	start(t, f, h)
	got, _ := outbox.TraceOf(outbox.ContextWithTrace(t.Context(), h.wait(t, 1)[0].Headers))
	if got != want {
		t.Errorf("the trace is %+v, want %+v", got, want)
	}
}

func parkedIsAcked(t *testing.T, f SubscriberFixture) {
	h := newHandler("projector", nil)
	h.ending = outbox.Parked
	start(t, f, h)
	publish(t, f.Publisher, Event("order-1", 1), Event("order-1", 2))
	h.wait(t, 2)
	acknowledged(t, f, h)
	if n := len(h.all()); n != 2 {
		t.Errorf("%d calls of Handle, want 2", n)
	}
}

// waitIsKept: the fixture's own wait would be some milliseconds.
func waitIsKept(t *testing.T, f SubscriberFixture) {
	const wait = 500 * time.Millisecond
	calls := make(chan time.Time, 100)
	var n atomic.Int64
	h := newHandler("projector", func(context.Context, outbox.Envelope) error {
		calls <- time.Now()
		if n.Add(1) == 1 {
			return &outbox.HandlingError{Kind: outbox.FailureFailed, Again: wait, Cause: errors.New("scripted")}
		}
		return nil
	})
	start(t, f, h)
	publish(t, f.Publisher, Event("order-1", 1))
	first := receive(t, "the first call", calls)
	if d := receive(t, "the second call", calls).Sub(first); d < wait*9/10 {
		t.Errorf("delivered again after %v, want %v", d, wait)
	}
	acknowledged(t, f, h)
}

// aggregatesBesideEachOther: with a concurrency of two, two aggregates are handled at
// a time and no more, and never two events of one, however many wait in front.
func aggregatesBesideEachOther(t *testing.T, f SubscriberFixture) {
	var (
		mu      sync.Mutex
		running = make(map[string]int)
		both    = make(chan struct{})
		meet    sync.Once
	)
	h := newHandler("projector", func(_ context.Context, e outbox.Envelope) error {
		mu.Lock()
		running[e.AggregateID]++
		if n := running[e.AggregateID]; n > 1 {
			t.Errorf("%d events of one aggregate are handled at a time", n)
		}
		if len(running) > 2 {
			t.Errorf("%d aggregates are handled at a time, want 2", len(running))
		}
		if len(running) == 2 {
			meet.Do(func() { close(both) })
		}
		mu.Unlock()
		select {
		case <-both:
		case <-time.After(patience):
			t.Error("no two aggregates are handled at a time")
		}
		mu.Lock()
		defer mu.Unlock()
		if running[e.AggregateID]--; running[e.AggregateID] == 0 {
			delete(running, e.AggregateID)
		}
		return nil
	})
	h.limits.Concurrency = 2
	sent := append(events("a", 20), events("b", 20)...)
	sent = append(sent, events("c", 20)...)
	publish(t, f.Publisher, sent...)
	start(t, f, h)
	checkOrder(t, h.wait(t, len(sent)))
	acknowledged(t, f, h)
}

// poisonHoldsUpNobody: one message fails until all others, which are behind it, are
// handled. It costs no delivery but its own.
func poisonHoldsUpNobody(t *testing.T, f SubscriberFixture) {
	const others = 499
	poison := Event("poison", 1)
	var (
		failures atomic.Int64
		handled  sync.Map
		n        atomic.Int64
	)
	h := newHandler("projector", func(_ context.Context, e outbox.Envelope) error {
		if e.ID == poison.ID && n.Load() < others {
			failures.Add(1)
			return &outbox.HandlingError{Kind: outbox.FailureFailed, Again: 50 * time.Millisecond, Cause: errors.New("poison")}
		}
		if _, again := handled.LoadOrStore(e.ID, true); !again && e.ID != poison.ID {
			n.Add(1)
		}
		return nil
	})
	sent := []outbox.Envelope{poison}
	for i := range others {
		sent = append(sent, Event(fmt.Sprint("order-", i), 1))
	}
	publish(t, f.Publisher, sent...)
	start(t, f, h)
	eventually(t, "the others are handled while it fails", func() bool { return n.Load() == others })
	acknowledged(t, f, h)
	if _, ok := handled.Load(poison.ID); !ok {
		t.Error("the poison message was not delivered to its end")
	}
	if failures.Load() == 0 {
		t.Error("the poison message never failed")
	}
	if got, most := f.Stats.Delivered.Load(), int64(len(sent))+failures.Load(); got > most {
		t.Errorf("%d deliveries of %d messages and %d failures", got, len(sent), failures.Load())
	}
	if got := f.Stats.Redelivered.Load(); got > failures.Load() {
		t.Errorf("%d redeliveries after %d failures", got, failures.Load())
	}
}

// pauseRedeliversNothing: while the database is away the message stays, no other is
// handed out, and then all goes on.
func pauseRedeliversNothing(t *testing.T, f SubscriberFixture) {
	const away = 2 // calls
	var (
		calls atomic.Int64
		mu    sync.Mutex
		first uuid.UUID
	)
	h := newHandler("projector", func(_ context.Context, e outbox.Envelope) error {
		mu.Lock()
		defer mu.Unlock()
		n := calls.Add(1)
		if n == 1 {
			first = e.ID
		}
		if n <= away+1 && e.ID != first {
			t.Errorf("event %s is handed out in the pause", e.ID)
		}
		if n <= away {
			return &outbox.HandlingError{Kind: outbox.FailureUnavailable, Again: time.Millisecond, Cause: errors.New("scripted")}
		}
		return nil
	})
	h.limits.Concurrency = 2
	sent := append(events("a", 3), events("b", 3)...)
	publish(t, f.Publisher, sent[0])
	start(t, f, h)
	eventually(t, "the pause", func() bool { return f.Stats.Pauses.Load() > 0 })
	publish(t, f.Publisher, sent[1:]...)
	checkOrder(t, h.wait(t, len(sent)+away))
	acknowledged(t, f, h)
	if got := f.Stats.Delivered.Load(); got != int64(len(sent)) {
		t.Errorf("%d deliveries of %d messages", got, len(sent))
	}
	if got := f.Stats.Pauses.Load(); got != 1 {
		t.Errorf("%d pauses, want 1", got)
	}
}
