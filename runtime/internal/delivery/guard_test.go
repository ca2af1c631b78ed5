package delivery

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// The followers of an event that was given back are given back too, and come in
// their order behind it.
func TestFollowersAreHeldBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Concurrency = 10 })
		r.set(again(10 * time.Second))
		r.handle = func(_ context.Context, e outbox.Envelope) error {
			if name(e) == "a2" {
				return r.fails()
			}
			return nil
		}
		r.submit("a", 1, 2, 3, 4)
		r.want("handle a1", "done a1", "ack a1", "handle a2", "again a2 10s", "again a3 10.01s", "again a4 10.01s")
		r.submit("b", 1)
		r.want("handle b1", "done b1", "ack b1")
		time.Sleep(5 * time.Second)
		r.submit("a", 5)
		r.want("again a5 5.01s")

		time.Sleep(5 * time.Second)
		again := func(version int64) {
			t.Helper()
			r.put(r.message(event("a", version), 2))
		}
		again(4) // before its time, and in front of two
		r.want("again a4 10ms")
		again(2) // fails again
		r.want("handle a2", "again a2 10s")
		again(3)
		r.want("again a3 10.01s")
		time.Sleep(10 * time.Second)
		r.set(nil)
		again(2)
		r.want("handle a2", "done a2", "ack a2")
		again(4)
		r.want("again a4 10ms")
		r.submit("a", 6) // new, behind three that are to come again
		r.want("again a6 10ms")
		for v := int64(3); v <= 6; v++ {
			again(v)
			n := name(event("a", v))
			r.want("handle "+n, "done "+n, "ack "+n)
		}
		r.submit("a", 7)
		r.want("handle a7", "done a7", "ack a7")
		r.engine.Close(time.Hour)
		if n := r.engine.guard.n; n != 0 || len(r.engine.guard.lanes) != 0 {
			t.Errorf("%d events are remembered, want none", n)
		}
		if n := r.stats.HeldBack.Load(); n != 7 {
			t.Errorf("%d held back, want 7", n)
		}
	})
}

// A repeat of an earlier event, and one of another aggregate type, go on.
func TestGuardHoldsOnlyLaterOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.handle = func(_ context.Context, e outbox.Envelope) error {
			if name(e) == "a5" && e.AggregateType == "order" {
				return again(time.Minute)
			}
			return nil
		}
		r.submit("a", 5, 4)
		r.want("handle a5", "again a5 1m0s", "handle a4", "done a4", "ack a4")
		other := event("a", 6)
		other.AggregateType = "invoice"
		r.put(r.message(other, 1))
		r.want("handle a6", "done a6", "ack a6")
		sameVersion := event("a", 5)
		sameVersion.ID[15]++
		r.put(r.message(sameVersion, 1))
		r.want("again a5 1m0.01s")
		r.engine.Close(time.Hour)
	})
}

// What doesn't come again, since another process got it, is given up on after a
// while. Until then the followers come and go ever more seldom.
func TestGuardExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.handle = func(_ context.Context, e outbox.Envelope) error {
			if name(e) == "a1" {
				return again(time.Second)
			}
			return nil
		}
		r.submit("a", 1)
		r.want("handle a1", "again a1 1s")
		begin := time.Now()
		deliveries := 0
		for done := false; !done; {
			m := r.message(event("a", 2), deliveries+1)
			var wait time.Duration
			m.Again = func(_ context.Context, after time.Duration) { wait = after }
			m.Ack = func(context.Context) { done = true }
			deliveries++
			r.put(m)
			synctest.Wait()
			time.Sleep(wait)
		}
		if d := time.Since(begin); d < time.Second+overdue || d > 2*(time.Second+overdue) {
			t.Errorf("the follower was handled after %v", d)
		}
		if deliveries > 15 {
			t.Errorf("it was delivered %d times", deliveries)
		}
		r.engine.Close(time.Hour)
	})
}

// In a pause what was given back can't come, or isn't handled: its time doesn't run out.
func TestGuardOutlastsAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.handle = func(_ context.Context, e outbox.Envelope) error {
			switch name(e) {
			case "a1":
				return again(time.Second)
			case "b1":
				return r.fails()
			}
			return nil
		}
		r.set(away())
		r.submit("a", 1)
		r.want("handle a1", "again a1 1s")
		r.submit("b", 1)
		synctest.Wait()
		time.Sleep(time.Hour)
		r.take()
		r.submit("a", 2)
		r.want("again a2 1s")
		time.Sleep(time.Minute)
		r.take()
		r.set(nil)
		for count(r.take(), "done b1") == 0 {
			time.Sleep(time.Second)
		}
		r.submit("a", 3)
		if got := r.take(); len(got) != 1 || count(got, "again a3") != 1 {
			t.Errorf("%q, want it held back", got)
		}
		r.engine.Close(time.Hour)
	})
}

func TestGuardIsBounded(t *testing.T) {
	t.Parallel()
	var g guard
	g.init()
	g.n = maxReturned - 100 // as if so many were remembered
	at := func(i int) (lane, *held) {
		return lane{id: fmt.Sprint(i % 7)}, &held{Message: Message{Envelope: event("a", int64(i))}}
	}
	for i := range 200 {
		key, h := at(i)
		g.returned(key, h, time.Second)
		g.returned(key, h, time.Minute) // counts once
	}
	if g.n != maxReturned {
		t.Errorf("%d events are remembered, want at most %d", g.n, maxReturned)
	}
	if key, _ := at(0); time.Until(g.lanes[key][0].due) < 30*time.Second {
		t.Error("a second wait doesn't count")
	}
	for i := range 200 {
		key, h := at(199 - i)
		g.remove(key, h)
	}
	if g.n != maxReturned-100 || len(g.lanes) != 0 {
		t.Errorf("%d events in %d lanes are left", g.n-maxReturned+100, len(g.lanes))
	}
}
