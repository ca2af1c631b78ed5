package delivery

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func count(events []string, prefix string) (n int) {
	for _, e := range events {
		if strings.HasPrefix(e, prefix) {
			n++
		}
	}
	return n
}

// While the database is away, nothing is given back, and one message tries, after
// waits that grow to half a minute.
func TestPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Concurrency, c.AliveEvery = 4, 10*time.Second })
		r.set(away())
		var tries []time.Duration // one at a time
		r.handle = func(context.Context, outbox.Envelope) error {
			err := r.fails()
			if err != nil {
				tries = append(tries, time.Since(r.begin))
			}
			return err
		}
		r.submit("a", 1, 2)
		r.want("handle a1")
		for i := range 50 {
			r.submit(fmt.Sprint("x", i), 1, 2)
		}
		r.want() // no other is handed out
		time.Sleep(30 * time.Minute)
		got := r.take()
		if count(got, "handle") != len(got) {
			t.Errorf("something was given back or acknowledged in the pause: %q", got)
		}
		for i, what := range got[:ownTries] {
			if what != "handle a1" {
				t.Errorf("try %d is %q, want the message that was there first", i+1, what)
			}
		}
		want := 500 * time.Millisecond
		for i := 1; i < len(tries); i++ {
			if d := tries[i] - tries[i-1]; d > want || d < want*3/4-time.Millisecond {
				t.Fatalf("wait %d is %v, want about %v", i, d, want)
			}
			want = min(2*want, maxPause)
		}
		if n := len(tries); n < 60 || n > 90 {
			t.Errorf("%d tries in half an hour", n)
		}
		if n := r.signs("x49" + "2"); n != 180 {
			t.Errorf("%d signs of life of a message that waits, want 180", n)
		}
		r.set(nil)
		time.Sleep(maxPause)
		if got := r.take(); count(got, "ack") != 102 || count(got, "again") != 0 {
			t.Errorf("after the pause: %d of 102 acknowledged, %d given back", count(got, "ack"), count(got, "again"))
		}
		r.engine.Close(time.Hour)
		if p, f := r.stats.Pauses.Load(), r.stats.Failed.Load(); p != 1 || f != 0 {
			t.Errorf("%d pauses, %d failed, want 1 and 0", p, f)
		}
		if n := strings.Count(r.log.String(), "\n"); n != 2 {
			t.Errorf("%d lines in the log, want the beginning and the end:\n%s", n, r.log.String())
		}
	})
}

// Each pause begins anew: at first the message that found the database away tries alone.
func TestSecondPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Concurrency = 2 })
		r.handle = func(context.Context, outbox.Envelope) error { return r.fails() }
		for _, aggregate := range []string{"a", "b"} {
			r.set(away())
			r.submit(aggregate, 1)
			synctest.Wait()
			for i := range 20 {
				r.submit(fmt.Sprint("x", i), 1)
			}
			time.Sleep(5 * time.Second) // less than ownTries
			if got := r.take(); count(got, "handle "+aggregate) != len(got) || len(got) < 3 {
				t.Errorf("%q, want tries of %s alone", got, aggregate)
			}
			time.Sleep(time.Hour)
			r.set(nil)
			time.Sleep(maxPause)
			if n := count(r.take(), "ack"); n != 21 {
				t.Errorf("%d of 21 are handled after the pause", n)
			}
		}
		r.engine.Close(time.Hour)
		if n := r.stats.Pauses.Load(); n != 2 {
			t.Errorf("%d pauses, want 2", n)
		}
	})
}

// One message tries at a time, however long it takes.
func TestOneTriesAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Concurrency = 5 })
		var slow atomic.Bool
		r.handle = func(context.Context, outbox.Envelope) error {
			if slow.Load() {
				time.Sleep(time.Hour)
			} else {
				time.Sleep(time.Millisecond)
			}
			return away()
		}
		for i := range 5 {
			r.submit(fmt.Sprint(i), 1)
		}
		time.Sleep(time.Millisecond)
		if n := count(r.take(), "handle"); n != 5 {
			t.Errorf("%d have begun, want 5", n)
		}
		slow.Store(true)
		time.Sleep(30 * time.Minute)
		if n := count(r.take(), "handle"); n != 1 {
			t.Errorf("%d try at a time", n)
		}
		r.engine.Close(time.Hour)
		if n := count(r.take(), "again"); n != 5 {
			t.Errorf("%d of 5 were given back at the end", n)
		}
		if n := r.stats.Pauses.Load(); n != 1 {
			t.Errorf("%d pauses", n)
		}
	})
}

// A handler that had begun before the gate was shut neither opens it nor makes
// the wait longer.
func TestLateHandlers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Concurrency = 4 })
		r.handle = func(_ context.Context, e outbox.Envelope) error {
			switch name(e) {
			case "ok1":
				time.Sleep(100 * time.Millisecond)
				return nil
			case "bad1":
				time.Sleep(200 * time.Millisecond)
				return errScripted
			case "late1":
				time.Sleep(300 * time.Millisecond)
				return away()
			}
			return away()
		}
		for _, id := range []string{"ok", "bad", "late"} {
			r.submit(id, 1)
			synctest.Wait()
		}
		r.submit("a", 1)
		synctest.Wait()
		r.submit("b", 1)
		r.want("handle ok1", "handle bad1", "handle late1", "handle a1")
		time.Sleep(310 * time.Millisecond)
		r.want("done ok1", "ack ok1", "again bad1 1s") // and b1 isn't handed out
		time.Sleep(190 * time.Millisecond)
		if got := r.take(); count(got, "handle") != 1 {
			t.Errorf("%q, want one try half a second after the beginning", got)
		}
		r.engine.Close(time.Hour)
	})
}

// A message that alone finds the database away, as when its statement kills the
// connection, doesn't stop the others for ever.
func TestOneCanNotKeepTheGateShut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.handle = func(_ context.Context, e outbox.Envelope) error {
			if e.AggregateID == "bad" {
				return away()
			}
			return nil
		}
		r.submit("bad", 1)
		synctest.Wait()
		for i := range 20 {
			r.submit(fmt.Sprint("x", i), 1)
		}
		time.Sleep(10 * time.Minute)
		if n := count(r.take(), "ack"); n != 20 {
			t.Errorf("%d of 20 others were handled", n)
		}
		r.engine.Close(time.Hour)
	})
}

// An event that fails by its own fault shows that the database is back.
func TestFailureOpensTheGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.set(away())
		r.handle = func(context.Context, outbox.Envelope) error { return r.fails() }
		r.submit("a", 1)
		r.want("handle a1")
		r.set(errScripted)
		r.submit("b", 1)
		time.Sleep(500 * time.Millisecond)
		r.want("handle a1", "again a1 1s", "handle b1", "again b1 1s")
		r.engine.Close(time.Hour)
	})
}

func TestCloseInAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Concurrency = 2 })
		r.handle = func(context.Context, outbox.Envelope) error { return away() }
		r.submit("a", 1, 2)
		synctest.Wait()
		r.submit("b", 1)
		r.submit("c", 1)
		r.want("handle a1")
		r.engine.Close(time.Hour)
		if got := r.take(); len(got) != 4 || count(got, "again") != 4 {
			t.Errorf("%q, want all given back", got)
		}
		if d := time.Since(r.begin); d != 0 {
			t.Errorf("it took %v", d)
		}
	})
}
