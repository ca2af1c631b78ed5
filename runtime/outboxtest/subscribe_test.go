package outboxtest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// failing is a recorder with a concurrency that fails while fails says so.
type failing struct {
	recorder
	fails func(e outbox.Envelope) error
}

func (*failing) Limits() outbox.Limits { return outbox.Limits{Concurrency: 2} }

func (f *failing) Handle(ctx context.Context, e outbox.Envelope) (outbox.Handling, error) {
	if _, err := f.recorder.Handle(ctx, e); err != nil {
		return outbox.NotHandled, err
	}
	if err := f.fails(e); err != nil {
		return outbox.NotHandled, err
	}
	return outbox.Applied, nil
}

func (f *failing) versions() (all []string) {
	synctest.Wait()
	for _, e := range f.take() {
		all = append(all, fmt.Sprint(e.AggregateID, e.AggregateVersion))
	}
	return all
}

// An event that fails waits, with those of its aggregate; the others go on.
func TestFailureHoldsUpItsAggregateOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stats := new(outbox.SubscribeStats)
		b := outboxtest.NewBroker(outboxtest.BrokerConfig{
			RedeliveryDelay: time.Hour, Logger: slog.New(slog.DiscardHandler), Stats: stats,
		})
		defer b.Close()
		var n int
		h := &failing{fails: func(e outbox.Envelope) error {
			if e.AggregateID != "a" || e.AggregateVersion != 1 {
				return nil
			}
			switch n++; n {
			case 1:
				return errors.New("for the broker's delay")
			case 2:
				return &outbox.HandlingError{Kind: outbox.FailureFailed, Again: time.Minute}
			}
			return nil
		}}
		go b.Subscribe(t.Context(), h) //nolint:errcheck // ends with Close
		want := func(want ...string) {
			t.Helper()
			if got := h.versions(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("delivered %v, want %v", got, want)
			}
		}
		publish := func(aggregate string, version int64) {
			if err := b.Publish(t.Context(), []outbox.Envelope{brokersuite.Event(aggregate, version)})[0]; err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		publish("a", 1)
		publish("a", 2)
		publish("b", 1)
		want("a1", "b1")
		time.Sleep(time.Hour - time.Nanosecond)
		want()
		time.Sleep(time.Second)
		want("a1")
		time.Sleep(time.Minute)
		want("a1", "a2")
		if b.Unacked("recorder") != 0 || stats.Acked.Load() != 3 || stats.Failed.Load() != 2 || stats.HeldBack.Load() != 2 {
			t.Errorf("%d unacknowledged, %d acknowledged, %d failed, %d held back",
				b.Unacked("recorder"), stats.Acked.Load(), stats.Failed.Load(), stats.HeldBack.Load())
		}
	})
}

// An event that is asked for again while its handler runs comes again, though the handler
// succeeds.
func TestRedeliverWhileItIsHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := outboxtest.NewBroker(outboxtest.BrokerConfig{Logger: slog.New(slog.DiscardHandler)})
		defer b.Close()
		started, goOn := make(chan bool, 8), make(chan bool)
		h := &failing{fails: func(outbox.Envelope) error {
			started <- true
			<-goOn
			return nil
		}}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.Subscribe(ctx, h) }()
		e := brokersuite.Event("a", 1)
		b.Publish(ctx, []outbox.Envelope{e})
		<-started
		b.Redeliver(e.ID)
		goOn <- true
		synctest.Wait()
		select {
		case <-started:
			goOn <- true
		default:
			t.Error("it did not come again")
		}
		synctest.Wait()
		if len(started) > 0 {
			t.Error("it came a third time")
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
