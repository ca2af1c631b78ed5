package outboxtest_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

type recorder struct {
	fail int // the first so many calls fail

	mu  sync.Mutex
	got []outbox.Envelope
}

func (*recorder) Name() string                                  { return "recorder" }
func (*recorder) EventTypes() []string                          { return []string{brokersuite.TypeA} }
func (*recorder) Limits() outbox.Limits                         { return outbox.Limits{} }
func (*recorder) Park(context.Context, outbox.Unreadable) error { return nil }
func (r *recorder) Handle(_ context.Context, e outbox.Envelope) (outbox.Handling, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, e)
	if len(r.got) <= r.fail {
		return outbox.NotHandled, errors.New("not yet")
	}
	return outbox.Applied, nil
}

// take returns what came since the last call.
func (r *recorder) take() []outbox.Envelope {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got, r.fail = nil, r.fail-len(got)
	return got
}

func TestFailNext(t *testing.T) {
	b := newBroker(t)
	kinds := []outbox.FailureKind{
		outbox.FailureUnknown, outbox.FailureUnavailable, outbox.FailureFailed, outbox.FailureRejected,
	}
	b.FailNext(kinds...)
	for _, kind := range kinds {
		err := b.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("a", 1)})[0]
		if err == nil || outbox.FailureKindOf(err) != kind {
			t.Errorf("%v, want %v", err, kind)
		}
	}
	if n := len(b.Published()); n != 0 {
		t.Errorf("%d messages are stored of those that failed", n)
	}
	if err := b.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("a", 1)})[0]; err != nil {
		t.Errorf("after the script: %v", err)
	}
}

func TestLoseConfirms(t *testing.T) {
	b := newBroker(t)
	b.LoseConfirms(1)
	e := brokersuite.Event("a", 1)
	err := b.Publish(t.Context(), []outbox.Envelope{e})[0]
	if err == nil || outbox.FailureKindOf(err) != outbox.FailureUnknown {
		t.Errorf("%v, want unknown", err)
	}
	if got := b.Published(); len(got) != 1 || got[0].ID != e.ID {
		t.Errorf("stored: %v, want the message", got)
	}
}

func TestPublishedIsACopy(t *testing.T) {
	b := newBroker(t)
	e := brokersuite.Event("a", 1)
	e.Headers = map[string]string{"tenant": "one"}
	b.Publish(t.Context(), []outbox.Envelope{e})
	e.Headers["tenant"], e.Data[0] = "two", 'x'
	b.Published()[0].Headers["tenant"] = "three"
	if got := b.Published()[0]; got.Headers["tenant"] != "one" || got.Data[0] == 'x' {
		t.Errorf("the stored message was changed from outside: %+v", got)
	}
}

// All time in here is the bubble's, and synctest fails the test when Close leaves
// a goroutine behind.
func TestInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := outboxtest.NewBroker(outboxtest.BrokerConfig{RedeliveryDelay: time.Hour, Logger: slog.New(slog.DiscardHandler)})
		h := &recorder{fail: 2}
		done := make(chan error, 1)
		go func() { done <- b.Subscribe(t.Context(), h) }()
		begin := time.Now()
		b.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("a", 1)})
		synctest.Wait()
		if n := len(h.take()); n != 1 {
			t.Fatalf("%d deliveries before the delay, want 1", n)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if n := len(h.take()); n != 2 || b.Unacked("recorder") != 0 {
			t.Fatalf("%d deliveries, %d unacknowledged after %v", n, b.Unacked("recorder"), time.Since(begin))
		}

		b.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := b.Publish(ctx, []outbox.Envelope{brokersuite.Event("a", 2)})[0]
		if err == nil || outbox.FailureKindOf(err) != outbox.FailureUnknown || time.Since(begin) != 2*time.Hour+time.Minute {
			t.Errorf("paused: %v after %v, want unknown after a minute", err, time.Since(begin)-2*time.Hour)
		}

		b.Close()
		if err := <-done; !errors.Is(err, outboxtest.ErrClosed) {
			t.Errorf("Subscribe: %v, want ErrClosed", err)
		}
		if err := b.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("a", 1)})[0]; !errors.Is(err, outboxtest.ErrClosed) {
			t.Errorf("Publish: %v, want ErrClosed", err)
		}
	})
}

func TestRepeatedDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := outboxtest.NewBroker(outboxtest.BrokerConfig{Logger: slog.New(slog.DiscardHandler)})
		defer b.Close()
		h := &recorder{}
		go b.Subscribe(t.Context(), h) //nolint:errcheck // ends with Close
		deliveries := func(what string, want int) {
			t.Helper()
			synctest.Wait()
			if n := len(h.take()); n != want || b.Unacked("recorder") != 0 {
				t.Errorf("%s: %d deliveries, %d unacknowledged, want %d and 0", what, n, b.Unacked("recorder"), want)
			}
		}
		first, second := brokersuite.Event("a", 1), brokersuite.Event("a", 2)
		b.Deliver(3)
		b.Publish(t.Context(), []outbox.Envelope{first, second})
		deliveries("three of each", 6)

		b.Deliver(1)
		b.Redeliver(first.ID)
		deliveries("one again", 1)

		b.LoseAcks(2)
		b.Redeliver(second.ID)
		deliveries("two lost acknowledgements", 3)

		b.Stop()
		b.Redeliver(first.ID)
		synctest.Wait()
		if len(h.take()) != 0 {
			t.Error("a broker that is down delivers")
		}
		b.Start()
		deliveries("after the start", 1)
	})
}

func TestSeveralSubscriptionsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := outboxtest.NewBroker(outboxtest.BrokerConfig{})
		defer b.Close()
		one, two := &recorder{}, &recorder{}
		go b.Subscribe(t.Context(), one) //nolint:errcheck // ends with Close
		go b.Subscribe(t.Context(), two) //nolint:errcheck // ends with Close
		for i := range int64(50) {
			b.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("a", i)})
		}
		synctest.Wait()
		var versions []int64
		for _, e := range slices.Concat(one.take(), two.take()) {
			versions = append(versions, e.AggregateVersion)
		}
		slices.Sort(versions)
		if len(versions) != 50 || len(slices.Compact(versions)) != 50 {
			t.Errorf("%d deliveries of 50 messages", len(versions))
		}
	})
}

// What a lost connection had out is delivered again, to another one, and what it still says
// counts for nothing.
func TestCutLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := outboxtest.NewBroker(outboxtest.BrokerConfig{Logger: slog.New(slog.DiscardHandler)})
		defer b.Close()
		acks := 0
		b.OnAck(func(consumer string, _ outbox.Envelope) {
			if consumer == "recorder" {
				acks++
			}
		})
		ctx, cut := outboxtest.WithLink(t.Context())
		first := &stuck{recorder: &recorder{}, on: make(chan struct{})}
		go func() { _ = b.Subscribe(ctx, first) }()
		b.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("a", 1)})
		synctest.Wait()
		cut()
		b.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("a", 2)})
		second := &recorder{}
		other, cancel := context.WithCancel(t.Context())
		go func() { _ = b.Subscribe(other, second) }()
		synctest.Wait()
		if n := len(second.take()); n != 2 || b.Unacked("recorder") != 0 || acks != 2 {
			t.Errorf("over another one: %d deliveries, %d unacknowledged, %d acknowledgements; want 2, 0, 2", n, b.Unacked("recorder"), acks)
		}
		b.Pause() // nobody gets anything
		b.Redeliver(b.Published()[0].ID)
		close(first.on)
		synctest.Wait()
		if b.Unacked("recorder") != 1 || acks != 2 {
			t.Errorf("over the lost connection: %d unacknowledged, %d acknowledgements; want 1, 2", b.Unacked("recorder"), acks)
		}
		cancel()
		b.Resume()
		synctest.Wait()
		if n := len(first.take()); n != 1 || b.Unacked("recorder") != 1 {
			t.Errorf("over the lost connection: %d deliveries, %d unacknowledged; want 1, 1", n, b.Unacked("recorder"))
		}
	})
}

// stuck handles when it is told to.
type stuck struct {
	*recorder
	on chan struct{}
}

func (s *stuck) Handle(ctx context.Context, e outbox.Envelope) (outbox.Handling, error) {
	<-s.on
	return s.recorder.Handle(ctx, e)
}

func TestAckWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := outboxtest.NewBroker(outboxtest.BrokerConfig{AckWait: time.Minute, Logger: slog.New(slog.DiscardHandler)})
		defer b.Close()
		first, second := &stuck{recorder: &recorder{}, on: make(chan struct{})}, &recorder{}
		go func() { _ = b.Subscribe(t.Context(), first) }()
		b.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("a", 1)})
		synctest.Wait()
		go func() { _ = b.Subscribe(t.Context(), second) }()
		time.Sleep(59 * time.Second)
		if n := len(second.take()); n != 0 {
			t.Errorf("%d deliveries to another one before AckWait is over", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := len(second.take()); n != 1 || b.Unacked("recorder") != 0 {
			t.Errorf("%d deliveries to another one after AckWait, %d unacknowledged", n, b.Unacked("recorder"))
		}
		close(first.on)
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		if n := len(second.take()); n != 0 {
			t.Errorf("%d deliveries after both have acknowledged", n)
		}
	})
}
