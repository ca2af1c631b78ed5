package main

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// slow confirms everything after a second.
type slow struct{}

func (slow) Publish(_ context.Context, messages []outbox.Envelope) []error {
	time.Sleep(time.Second)
	return make([]error, len(messages))
}

// The gate lets n events by, then has calls wait until it is opened, and tells of it
// when no call is under way.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, r := &gate{}, newRecord(nil)
		call := func(events int) {
			gated{slow{}, g, r}.Publish(t.Context(), make([]outbox.Envelope, events))
		}
		var others sync.WaitGroup
		done := make(chan struct{})
		go func() { defer close(done); call(2); call(3); call(1) }()
		others.Go(func() { call(2) }) // ends with the first
		begun := time.Now()
		if err := g.shut(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		if r.all.Confirmed != 7 || time.Since(begun) != 2*time.Second {
			t.Errorf("shut with %d events confirmed after %v, want 7 after 2s", r.all.Confirmed, time.Since(begun))
		}
		synctest.Wait()
		select {
		case <-done:
			t.Error("a call went through")
		default:
		}
		g.open()
		<-done
		if r.all.Confirmed != 8 {
			t.Errorf("%d events were confirmed in the end", r.all.Confirmed)
		}
		others.Go(func() { call(1) }) // under way when the next one waits
		synctest.Wait()
		others.Go(func() { time.Sleep(time.Second / 2); call(1) })
		begun = time.Now()
		if err := g.shut(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if time.Since(begun) != time.Second {
			t.Errorf("shut after %v, with a call under way until 1s", time.Since(begun))
		}
		g.open()
		others.Wait()
	})
}

// A call that waits ends with its context.
func TestGateEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		shut := make(chan error, 1)
		go func() { shut <- g.shut(t.Context(), 0) }()
		synctest.Wait()
		gated{slow{}, g, newRecord(nil)}.Publish(ctx, nil)
		if err := <-shut; err != nil {
			t.Error(err)
		}
	})
}

// A fault that doesn't come ends a run as inconclusive.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notice
		begun := time.Now()
		err := n.await(t.Context(), "a fault", func() bool { return false })
		if err == nil || err.Error() != "inconclusive: a fault did not come within 2m0s" || time.Since(begun) != patience {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}
