package purge_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/purge"
)

// fill adds events that are old.
func (f *fake) fill(n int) {
	for i := range n {
		f.add(time.Now().Add(-2*keep+time.Duration(i)*time.Microsecond), time.Now().Add(-2*keep+time.Minute))
	}
}

// Of many purgers one does the work, in the pauses too, and when it stops another
// one takes over at its next look.
func TestOneIsElected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var purgers []*purge.Purger
		var stops []func()
		for range 5 {
			p := eventsPurger(t, f, keep, 0, purge.Config{})
			purgers, stops = append(purgers, p), append(stops, start(t, p))
			time.Sleep(time.Second)
		}
		for range 100 {
			f.fill(10)
			time.Sleep(time.Minute)
		}
		if s := purgers[0].Stats(); s.Events != 1000 || !s.Elected || s.Passes != 101 {
			t.Errorf("the first purger: %+v", s)
		}
		for _, p := range purgers[1:] {
			if s := p.Stats(); s != (purge.Stats{}) {
				t.Errorf("a second purger: %+v", s)
			}
		}
		if pass := mustPurge(t, purgers[1]); pass.Elected {
			t.Errorf("a second purger's one pass: %+v", pass)
		}
		stops[0]()
		f.fill(10)
		wait(time.Minute)
		if s := purgers[1].Stats(); s.Events != 10 || !s.Elected || purgers[0].Stats().Elected {
			t.Errorf("the second purger after the first has stopped: %+v", s)
		}
		for _, stop := range stops[1:] {
			stop()
		}
		if len(f.tasks) != 0 {
			t.Errorf("tasks left after all have stopped: %v", f.tasks)
		}
	})
}

// A purger that dies is replaced when its hold ends.
func TestKilledHolderIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.fill(1000)
		died, dead := make(chan struct{}), atomic.Bool{}
		killed := eventsPurger(t, f, keep, 0, purge.Config{BatchSize: 100, Interval: time.Second})
		f.before = func(ctx context.Context, call string) error {
			if call != "delete events" || f.count(call) != 3 {
				return nil
			}
			if !dead.CompareAndSwap(false, true) {
				return nil // the other one
			}
			close(died)
			<-ctx.Done() // it hangs there for all time
			return ctx.Err()
		}
		stopKilled := start(t, killed)
		<-died
		begun := time.Now()
		p := eventsPurger(t, f, keep, 0, purge.Config{Interval: time.Second})
		stop := start(t, p)
		wait(59 * time.Second)
		if s := p.Stats(); s.Elected {
			t.Errorf("it is elected %v after the other one's last sign: %+v", time.Since(begun), s)
		}
		wait(3 * time.Second)
		if s := p.Stats(); s.Events != 700 || !s.Elected {
			t.Errorf("after the end of the hold: %+v", s)
		}
		stopKilled() // gives nothing up: it is not its own
		wait(3 * time.Second)
		if s := p.Stats(); !s.Elected {
			t.Errorf("after the other one came back: %+v", s)
		}
		stop()
	})
}

// A pass that takes longer than the hold keeps the task; one whose task is lost ends.
func TestLongPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.took = func(rows int) time.Duration { return time.Duration(rows) * 50 * time.Millisecond } // 10 s a batch
		f.fill(10_000)
		first, second := eventsPurger(t, f, keep, 0, purge.Config{BatchSize: 100}), eventsPurger(t, f, keep, 0, purge.Config{})
		stopFirst := start(t, first)
		time.Sleep(time.Second)
		stopSecond := start(t, second)
		wait(10 * time.Minute)
		if s := second.Stats(); s.Elected || first.Stats().Events < 5000 {
			t.Errorf("%+v, beside %+v", s, first.Stats())
		}
		f.mu.Lock()
		f.tasks["purge-events"] = task{holder: "somebody", until: time.Now().Add(time.Hour)}
		f.mu.Unlock()
		wait(time.Minute)
		before := first.Stats()
		wait(10 * time.Minute)
		if s := first.Stats(); s != before || s.Elected || s.Failures != 0 {
			t.Errorf("it goes on without its task: %+v, then %+v", before, s)
		}
		stopFirst()
		stopSecond()
	})
}

func TestStop(t *testing.T) {
	t.Run("while it waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			stop := start(t, eventsPurger(t, f, keep, 0, purge.Config{}))
			wait(90 * time.Second)
			begun := time.Now()
			stop()
			if d := time.Since(begun); d > 0 || len(f.tasks) > 0 {
				t.Errorf("it took %v, tasks %v", d, f.tasks)
			}
		})
	})
	t.Run("in a batch", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.fill(1000)
			f.took = func(int) time.Duration { return time.Second }
			stop := start(t, eventsPurger(t, f, keep, 0, purge.Config{BatchSize: 100}))
			wait(3*time.Second + time.Second/2)
			begun := time.Now()
			stop()
			if d := time.Since(begun); d > time.Second || f.left() != 800 || len(f.tasks) > 0 {
				t.Errorf("it took %v, %d left, want the batch at hand finished; tasks %v", d, f.left(), f.tasks)
			}
		})
	})
	t.Run("when the database hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.fill(1000)
			hung := make(chan struct{})
			f.before = func(ctx context.Context, call string) error {
				if call == "delete events" {
					close(hung)
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
			stop := start(t, eventsPurger(t, f, keep, 0, purge.Config{}))
			<-hung
			begun := time.Now()
			stop()
			if d := time.Since(begun); d > 5*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	})
	t.Run("of one pass", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.fill(1000)
			f.took = func(int) time.Duration { return time.Second }
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second+time.Second/2)
			defer cancel()
			pass, err := eventsPurger(t, f, keep, 0, purge.Config{BatchSize: 100}).Purge(ctx)
			if !errors.Is(err, context.DeadlineExceeded) || pass.Events != 200 || f.left() != 800 {
				t.Errorf("%+v, %v", pass, err)
			}
			if _, err := eventsPurger(t, f, keep, 0, purge.Config{}).Purge(ctx); err == nil || f.left() != 800 {
				t.Errorf("after its end: %v", err)
			}
		})
	})
}
