package purge_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/purge"
)

const keep = time.Hour

var never time.Time

// add adds an event of lane 0, which keeps the order of the index.
func (f *fake) add(available, published time.Time) string {
	return f.addTo(0, available, published)
}

func (f *fake) addTo(lane uint16, available, published time.Time) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastID++
	e := event{id: fmt.Sprint(f.lastID), lane: lane, available: available, published: published}
	at := len(f.events)
	for at > 0 && f.events[at-1].available.After(available) {
		at--
	}
	f.events = slices.Insert(f.events, at, e)
	return e.id
}

func (f *fake) publish(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.events, func(e event) bool { return e.id == id })
	f.events[i].published = time.Now()
}

func (f *fake) left() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.events)
}

// read returns how many rows were read, and the number of reads from the start.
func (f *fake) read(call string) (rows, fromStart int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.seen {
		if s.call == call {
			rows += s.rows
			if s.from == 0 {
				fromStart++
			}
		}
	}
	return rows, fromStart
}

// readsFrom counts the reads of events from such a place in the index, or from before it.
func (f *fake) readsFrom(us int64) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.seen {
		if s.call == "select events" && s.from <= us {
			n++
		}
	}
	return n
}

func eventsPurger(t *testing.T, f *fake, keep time.Duration, lanes int, cfg purge.Config) *purge.Purger {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	p, err := purge.NewEvents(f.pool(t), f, keep, lanes, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// start runs a purger until stop.
func start(t *testing.T, p *purge.Purger) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func mustPurge(t *testing.T, p *purge.Purger) purge.Pass {
	t.Helper()
	pass, err := p.Purge(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return pass
}

func TestEventsDeletesWhatIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		now := time.Now()
		for i := range 250 {
			id := f.add(now.Add(-2*keep+time.Duration(i)), now.Add(-2*keep+time.Second))
			f.failures[id] = true
		}
		waits := f.add(now.Add(-2*keep), never)
		young := f.add(now.Add(-2*keep), now.Add(-keep/2))
		f.failures[waits] = true
		pass := mustPurge(t, eventsPurger(t, f, keep, 0, purge.Config{BatchSize: 100}))
		if want := (purge.Purged{Events: 250}); !pass.Elected || pass.Purged != want {
			t.Errorf("%+v", pass)
		}
		if f.left() != 2 || f.events[0].id != waits && f.events[1].id != waits || len(f.failures) != 1 {
			t.Errorf("%d events and %d failures are left, want %s and %s, and a failure", f.left(), len(f.failures), waits, young)
		}
		for _, s := range f.seen {
			if s.rows > 100 {
				t.Errorf("%d rows in one statement: %s", s.rows, s.call)
			}
		}
	})
}

// Events that are too young, in front of those that are old, must not stall the
// purge; nor must so many that are due at one moment that a read sees nothing else.
func TestEventsBehindYoungOnes(t *testing.T) {
	moments := map[string]func(i int) time.Duration{
		"one after the other": func(i int) time.Duration { return time.Duration(i) * time.Microsecond },
		"at one moment":       func(int) time.Duration { return 0 },
		"in bursts":           func(i int) time.Duration { return time.Duration(i/300) * time.Microsecond },
	}
	for name, moment := range moments {
		for _, young := range []int{2000, 25_000} {
			t.Run(fmt.Sprintf("%d %s", young, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFake()
					due := time.Now().Add(-2 * keep)
					for i := range young {
						f.add(due.Add(moment(i)), time.Now())
					}
					for i := range 1000 {
						f.add(due.Add(time.Second).Add(moment(i)), due.Add(time.Second))
					}
					p := eventsPurger(t, f, keep, 0, purge.Config{BatchSize: 100, Interval: 30 * time.Second})
					stop := start(t, p)
					wait(5 * time.Second)
					if n := f.left(); n != young {
						t.Errorf("%d events are left, want the %d young ones", n, young)
					}
					wait(keep + 15*time.Minute)
					stop()
					if n := f.left(); n != 0 {
						t.Errorf("%d events are left when all are old", n)
					}
				})
			})
		}
	}
}

// Old and young events that are due at one moment, in whatever order and however many.
func TestEventsOfOneMoment(t *testing.T) {
	for _, c := range []struct{ young, old, batch int }{{600, 450, 100}, {15_000, 450, 500}, {0, 60_000, 5000}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			due := time.Now().Add(-2 * keep)
			for range c.young {
				f.add(due, time.Now())
			}
			for range c.old {
				f.add(due, due)
			}
			pass := mustPurge(t, eventsPurger(t, f, keep, 0, purge.Config{BatchSize: c.batch}))
			if pass.Events != int64(c.old) || f.left() != c.young {
				t.Errorf("%+v: %+v, %d left", c, pass, f.left())
			}
			for _, s := range f.seen {
				if s.call == "delete events" && s.rows > c.batch {
					t.Errorf("%+v: %d deleted at once", c, s.rows)
				}
			}
		})
	}
}

// What is published behind the cursor, such as a dead event that was put back, is
// found too.
func TestEventsPublishedBehindTheCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		due := time.Now().Add(-24 * keep)
		waits := f.add(due, never)
		for at := -2 * keep; at < 0; at += 20 * time.Second { // there is always something to do
			f.add(time.Now().Add(at), time.Now().Add(at+time.Second))
		}
		stop := start(t, eventsPurger(t, f, keep, 0, purge.Config{BatchSize: 100}))
		wait(time.Minute)
		f.publish(waits)
		wait(keep)
		if f.left() != 1 && f.events[0].id != waits {
			t.Error("it was deleted before it was old")
		}
		// Meanwhile the index between it and the cursor is not waded through each minute.
		if n := f.readsFrom(due.UnixMicro()); n > 7 {
			t.Errorf("%d looks from its place on, in an hour", n)
		}
		wait(11 * time.Minute)
		stop()
		if f.left() != 0 {
			t.Error("it was not found")
		}
	})
}

// A day of a service whose events are published some seconds after they are due:
// each is deleted in time, and hardly a row is read twice.
func TestEventsAreReadOnce(t *testing.T) {
	for _, late := range []time.Duration{0, 5 * time.Second, 50 * time.Second} {
		t.Run(late.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				stop := start(t, eventsPurger(t, f, keep, 0, purge.Config{}))
				begun, written := time.Now(), 0
				for time.Since(begun) < 24*time.Hour {
					f.add(time.Now(), time.Now().Add(late)) // its own time will come
					written++
					wait(2 * time.Second)
					// Not longer than keep, the interval and the overlap.
					if first := f.events[0].available; time.Since(first) > keep+late+2*time.Minute+time.Second {
						t.Fatalf("an event is still there %v after it was due", time.Since(first))
					}
				}
				stop()
				rows, fromStart := f.read("select events")
				if perPass := int(late / (2 * time.Second)); rows > written+24*60*(perPass+1)+24*6*(perPass+1) {
					t.Errorf("%d rows were read of %d", rows, written)
				}
				if fromStart > 60+24*6 {
					t.Errorf("%d reads from the start in a day", fromStart)
				}
			})
		})
	}
}

// After an outage of the broker many events were published long after they were
// due. Reading them over and over must not take the time for the others.
func TestEventsYoungForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const young, keep = 40_000, 48 * time.Hour
		f := newFake()
		f.took = func(rows int) time.Duration { return time.Duration(rows) * 2500 * time.Microsecond } // 100 s for all
		due := time.Now().Add(-2 * keep)
		for i := range young {
			f.add(due.Add(time.Duration(i)*time.Millisecond), time.Now())
		}
		stop := start(t, eventsPurger(t, f, keep, 0, purge.Config{}))
		wait(keep - time.Second)
		rows, _ := f.read("select events")
		if share := float64(rows) * 0.0025 / keep.Seconds(); share > 0.06 || rows < young {
			t.Errorf("reading what is too young took %.2f of the time", share)
		}
		wait(time.Hour)
		stop()
		if n := f.left(); n != 0 {
			t.Errorf("%d events are left an hour after they were old", n)
		}
	})
}
