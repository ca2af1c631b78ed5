package delivery

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func TestSerialWithinAnAggregate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Concurrency = 10 })
		r.handle = func(context.Context, outbox.Envelope) error { time.Sleep(time.Second); return nil }
		r.submit("a", 1, 2, 3)
		r.want("handle a1")
		time.Sleep(3 * time.Second)
		r.want("done a1", "ack a1", "handle a2", "done a2", "ack a2", "handle a3", "done a3", "ack a3")
		r.engine.Close(time.Hour)
		if n := r.stats.Handled.Load(); n != 3 || r.stats.Delivered.Load() != 3 {
			t.Errorf("%d handled, %d delivered", n, r.stats.Delivered.Load())
		}
	})
}

func TestConcurrencyAcrossAggregates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Concurrency = 3 })
		r.handle = func(context.Context, outbox.Envelope) error { time.Sleep(time.Second); return nil }
		for i := range 7 {
			r.submit(fmt.Sprint("x", i), 1)
		}
		for _, want := range []int{3, 3, 1} {
			begun := 0
			for _, what := range r.take() {
				if strings.HasPrefix(what, "handle") {
					begun++
				}
			}
			if begun != want {
				t.Errorf("%d handlers have begun, want %d", begun, want)
			}
			time.Sleep(time.Second)
		}
		r.engine.Close(time.Hour)
	})
}

// Engines that share their slots run as many handlers together as there are slots.
func TestSharedSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slots := make(chan struct{}, 2)
		shared := func(c *Config) { c.Slots, c.Concurrency = slots, 5 }
		first, second := newRig(t, shared), newRig(t, shared)
		for _, r := range []*rig{first, second} {
			r.handle = func(context.Context, outbox.Envelope) error { time.Sleep(time.Second); return nil }
			r.submit("a", 1)
			r.submit("b", 1)
			r.submit("c", 1)
		}
		for range 3 {
			if n := count(first.take(), "handle") + count(second.take(), "handle"); n != 2 {
				t.Errorf("%d handlers have begun, want 2", n)
			}
			time.Sleep(time.Second)
		}
		first.engine.Close(time.Hour)
		second.engine.Close(time.Hour)
	})
}

// A slow answer to an acknowledgement keeps no other aggregate from being handled.
func TestAckTakesNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		m := r.message(event("a", 1), 1)
		m.Ack = func(context.Context) { time.Sleep(time.Minute); r.note("ack a1") }
		r.put(m)
		synctest.Wait()
		r.submit("b", 1)
		r.want("handle a1", "done a1", "handle b1", "done b1", "ack b1")
		time.Sleep(time.Minute)
		r.want("ack a1")
		r.engine.Close(time.Hour)
	})
}

func TestGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.set(errScripted)
		r.handle = func(context.Context, outbox.Envelope) error { return r.fails() }
		for deliveries, want := range map[int]string{0: "1s", 1: "1s", 2: "2s", 5: "16s", 6: "30s", 1 << 30: "30s"} {
			r.put(r.message(event("a", 1), deliveries))
			r.want("handle a1", "again a1 "+want)
		}
		r.set(again(90 * time.Second)) // the handler's own, above MaxBackoff too
		r.submit("a", 1)
		r.want("handle a1", "again a1 1m30s")
		for wait, want := range map[time.Duration]string{1: "1ms", 0: "1s", -time.Hour: "1s"} {
			r.set(again(wait)) // never at once, as at the end
			r.submit("a", 1)
			r.want("handle a1", "again a1 "+want)
		}
		r.engine.Close(time.Hour)
		if n := r.stats.Failed.Load(); n != 10 || r.stats.Handled.Load() != 0 || r.stats.Redelivered.Load() != 4 {
			t.Errorf("%d failed, %d handled, %d redelivered", n, r.stats.Handled.Load(), r.stats.Redelivered.Load())
		}
	})
}

func TestBackoffVaries(t *testing.T) {
	t.Parallel()
	e := &Engine{cfg: Config{Backoff: time.Second, MaxBackoff: 30 * time.Second}}
	seen := make(map[time.Duration]bool)
	for range 100 {
		d := e.backoff(2)
		if d < 1600*time.Millisecond || d > 2400*time.Millisecond {
			t.Errorf("%v, want 2s and a fifth either way", d)
		}
		seen[d] = true
	}
	if len(seen) < 50 {
		t.Errorf("%d different waits of 100", len(seen))
	}
}

func TestPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.handle = func(_ context.Context, e outbox.Envelope) error { panic("canary " + e.AggregateID) }
		r.park = func(outbox.Unreadable) error { panic(errors.New("canary")) }
		r.submit("a", 1)
		r.want("handle a1", "again a1 1s")
		r.put(r.unreadable("S/1"))
		r.want("park S/1", "again S/10 1s")
		r.engine.Close(time.Hour)
		if n := r.stats.Panics.Load(); n != 2 || r.stats.Failed.Load() != 2 {
			t.Errorf("%d panics, %d failed", n, r.stats.Failed.Load())
		}
		if text := r.log.String(); strings.Contains(text, "canary") || !strings.Contains(text, "stack=") {
			t.Errorf("the log shows the panic's value, or no stack:\n%s", text)
		}
	})
}

// A handler that ends its goroutine has failed, and its aggregate goes on.
func TestGoexit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Hold = true })
		calls := 0
		r.handle = func(context.Context, outbox.Envelope) error {
			if calls++; calls == 1 {
				runtime.Goexit()
			}
			return nil
		}
		r.submit("a", 1, 2)
		r.want("handle a1")
		time.Sleep(time.Second)
		r.want("handle a1", "done a1", "ack a1", "handle a2", "done a2", "ack a2")
		r.engine.Close(time.Hour)
		if n := r.stats.Panics.Load(); n != 1 || r.stats.Failed.Load() != 1 || !strings.Contains(r.log.String(), "runtime.Goexit") {
			t.Errorf("%d panics, %d failed, log:\n%s", n, r.stats.Failed.Load(), &r.log)
		}
	})
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.set(errScripted)
		r.park = func(outbox.Unreadable) error { return r.fails() }
		r.put(r.unreadable("S/1"))
		r.want("park S/1", "again S/10 1s")
		if n := r.stats.Unreadable.Load(); n != 0 {
			t.Errorf("%d parked, and Park failed", n)
		}
		if n := r.engine.guard.n; n != 0 {
			t.Errorf("%d messages are remembered that nothing can be behind", n)
		}
		r.set(nil)
		r.put(r.unreadable("S/2")) // one that failed holds up no other
		r.want("park S/2", "ack S/20")
		r.put(r.unreadable("S/1"))
		r.want("park S/1", "ack S/10")
		r.set(away())
		r.put(r.unreadable("S/3"))
		r.want("park S/3")
		r.set(nil)
		time.Sleep(firstPause)
		r.want("park S/3", "ack S/30")
		r.engine.Close(time.Hour)
		if n := r.stats.Unreadable.Load(); n != 3 || r.stats.Handled.Load() != 3 {
			t.Errorf("%d unreadable, %d handled, want 3 and 3", n, r.stats.Handled.Load())
		}
	})
}

// Messages that aren't events have no order: a slow one keeps no other.
func TestUnreadableBesideEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Concurrency = 2 })
		r.park = func(outbox.Unreadable) error { time.Sleep(time.Second); return nil }
		r.put(r.unreadable("S/1"))
		synctest.Wait()
		r.put(r.unreadable("S/2"))
		r.want("park S/1", "park S/2")
		r.engine.Close(time.Hour)
	})
}

func TestSignsOfLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.AliveEvery = 10 * time.Second })
		r.handle = func(context.Context, outbox.Envelope) error {
			time.Sleep(35 * time.Second)
			return errScripted
		}
		m := r.message(event("a", 1), 1)
		ended := m.Again
		// Giving back takes its time, and no sign may come in between.
		m.Again = func(ctx context.Context, after time.Duration) { time.Sleep(time.Minute); ended(ctx, after) }
		r.put(m)
		r.submit("a", 2)
		time.Sleep(36 * time.Second)
		if n := r.signs("a1"); n != 3 {
			t.Errorf("%d signs of the one that runs, want 3", n)
		}
		if n := r.signs("a2"); n != 3 {
			t.Errorf("%d signs of the one behind it, want 3", n)
		}
		time.Sleep(2 * time.Minute)
		if n := r.signs("a1"); n != 3 {
			t.Errorf("%d signs, some after Again", n)
		}
		r.take()
		r.engine.Close(time.Hour)
		time.Sleep(time.Minute)
		if n := r.signs("a2"); n != 9 {
			t.Errorf("%d signs of the one behind it, want one every 10s of 95s", n)
		}
	})
}

func TestWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Window = 2 })
		r.handle = func(context.Context, outbox.Envelope) error { time.Sleep(time.Minute); return nil }
		r.submit("a", 1, 2)
		r.want("handle a1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r.engine.Submit(ctx, r.message(event("b", 1), 1)) {
			t.Error("a message was taken beyond the window")
		}
		r.submit("b", 1) // waits for room
		if d := time.Since(r.begin); d != time.Minute {
			t.Errorf("there was room after %v", d)
		}
		r.want("done a1", "ack a1", "handle a2")

		refused := make(chan bool)
		go func() { refused <- !r.engine.Submit(t.Context(), r.message(event("c", 1), 1)) }()
		synctest.Wait()
		r.engine.Close(time.Hour)
		if !<-refused {
			t.Error("Submit took a message of an engine that is closed")
		}
		if r.engine.Submit(t.Context(), r.message(event("c", 1), 1)) {
			t.Error("a closed engine takes a message")
		}
		r.want("again b1 0s", "done a2", "ack a2")
	})
}

func TestCloseRefusesWhoWaitsForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Window = 1 })
		r.handle = func(context.Context, outbox.Envelope) error { time.Sleep(time.Minute); return nil }
		r.submit("a", 1)
		go func() {
			taken := r.engine.Submit(t.Context(), r.message(event("b", 1), 1))
			r.note("taken %v after %v", taken, time.Since(r.begin))
		}()
		synctest.Wait()
		r.engine.Close(time.Hour)
		r.want("handle a1", "taken false after 0s", "done a1", "ack a1")
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.handle = func(ctx context.Context, e outbox.Envelope) error {
			if e.AggregateID == "bad" {
				return again(time.Hour)
			}
			time.Sleep(10 * time.Second)
			return ctx.Err()
		}
		r.submit("bad", 1)
		r.want("handle bad1", "again bad1 1h0m0s")
		r.submit("a", 1, 2)
		synctest.Wait()
		r.submit("b", 1)
		r.want("handle a1")
		r.engine.Close(20 * time.Second)
		if d := time.Since(r.begin); d != 10*time.Second {
			t.Errorf("Close returned after %v, want it with the handler", d)
		}
		got := r.take()
		slices.Sort(got)
		if fmt.Sprint(got) != "[ack a1 again a2 0s again b1 0s done a1]" {
			t.Errorf("%q", got)
		}
		if r.engine.Submit(t.Context(), r.message(event("c", 1), 1)) {
			t.Error("a closed engine takes a message")
		}
		r.want()
	})
}

// The handlers' context has the values of the subscription's, and not its end.
func TestShutdownTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		r := newRig(t, nil)
		r.engine = New(ctx, r.engine.cfg)
		r.handle = func(ctx context.Context, _ outbox.Envelope) error {
			if ctx.Value(key{}) != "value" {
				t.Error("the handler's context lacks the subscription's values")
			}
			<-ctx.Done()
			return ctx.Err()
		}
		r.submit("a", 1)
		synctest.Wait()
		cancel()
		r.engine.Close(20 * time.Second)
		if d := time.Since(r.begin); d != 20*time.Second {
			t.Errorf("Close returned after %v", d)
		}
		r.want("handle a1", "again a1 1s")
		if n := strings.Count(r.log.String(), "ShutdownTimeout"); n != 1 {
			t.Errorf("the log says so %d times", n)
		}
	})
}

func TestHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Hold, c.AliveEvery = true, time.Second })
		var fail atomic.Int64
		fail.Store(3)
		r.handle = func(_ context.Context, e outbox.Envelope) error {
			if e.AggregateID == "a" && fail.Add(-1) >= 0 {
				return errScripted
			}
			return nil
		}
		m := r.message(event("a", 1), 0)
		m.Again = nil
		r.put(m)
		r.submit("a", 2)
		synctest.Wait()
		r.submit("b", 1)
		r.want("handle a1", "handle b1", "done b1", "ack b1")
		time.Sleep(time.Second)
		r.want("handle a1")
		time.Sleep(2 * time.Second)
		r.want("handle a1")
		time.Sleep(4 * time.Second)
		r.want("handle a1", "done a1", "ack a1", "handle a2", "done a2", "ack a2")
		if n := r.signs("a1"); n < 6 {
			t.Errorf("%d signs of life in 7 seconds", n)
		}

		fail.Store(1)
		r.put(m)
		r.submit("a", 2)
		r.want("handle a1")
		r.engine.Close(time.Hour)
		r.want("again a2 0s")
		if d := time.Since(r.begin); d != 7*time.Second {
			t.Errorf("Close waited for the backoff: %v", d)
		}
	})
}
