package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// diary is an observer that writes down what it is told.
type diary struct {
	mu      sync.Mutex
	entries []string
	total   map[string]int
}

func (d *diary) write(kind string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.total == nil {
		d.total = map[string]int{}
	}
	d.entries = append(d.entries, kind)
	d.total[kind] += n
}

func (d *diary) observer() *outbox.Observer {
	return &outbox.Observer{
		Claimed: func(c outbox.Claimed) { d.write("claimed", len(c.Events)) },
		Answered: func(a outbox.Answered) {
			if len(a.Errors) != len(a.Events) {
				d.write("mismatch", 1)
			}
			d.write("answered", len(a.Events))
			d.write("answered ms", int(a.Took.Milliseconds()))
		},
		Settled: func(s outbox.Settled) {
			d.write("settled", s.Published)
			d.write("outcomes", len(s.Outcomes))
			d.write("settled ms", int(s.Took.Milliseconds()))
		},
		Abandoned:   func(events int) { d.write("abandoned", events) },
		Paused:      func(p outbox.Paused) { d.write("paused", 1) },
		Resumed:     func() { d.write("resumed", 1) },
		StoreFailed: func(f outbox.StoreFailed) { d.write(f.Call+" failed", 1) },
		Backlog:     func(b outbox.Backlog) { d.write("backlog", b.Waiting) },
	}
}

func TestObserverIsToldOfEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(10)
		store.rows[0].event.Invalid = errors.New("not an event id")
		fails := map[string]int{"claim": 2, "settle": 3}
		fail := func(call string) error {
			if fails[call]--; fails[call] >= 0 {
				return errors.New("connection refused")
			}
			return nil
		}
		store.claimErr = func() error { return fail("claim") }
		store.settleErr = func(int) error { return fail("settle") }
		calls := 0
		d := &diary{}
		_, stop := startRelay(t, failingRelease{store}, publisherBatch(func(m []outbox.Envelope) []error {
			time.Sleep(100 * time.Millisecond)
			if calls++; calls == 1 {
				return answerAll(m, outbox.PublishUnavailable(errors.New("away")))
			}
			return make([]error, len(m))
		}), outbox.RelayConfig{Observer: d.observer(), BacklogInterval: time.Minute, OutageBackoffMax: time.Second})
		time.Sleep(3 * time.Minute)
		stop()
		want := map[string]int{
			"claim failed": 2, "settle failed": 3, "release failed": 1, "paused": 1, "resumed": 1,
			"claimed": 10 + 9, "answered": 9 + 9, "settled": 9, "outcomes": 10 + 9,
		}
		for kind, n := range want {
			if d.total[kind] != n {
				t.Errorf("%s: %d, want %d", kind, d.total[kind], n)
			}
		}
		if d.total["mismatch"] != 0 || d.total["abandoned"] != 0 || d.total["answered ms"] < 300 {
			t.Errorf("told %v", d.total)
		}
		if first := slices.Index(d.entries, "claimed"); first > slices.Index(d.entries, "answered") ||
			slices.Index(d.entries, "answered") > slices.Index(d.entries, "settled") {
			t.Errorf("not in order: %v", d.entries)
		}
	})
}

type failingRelease struct{ *memStore }

func (failingRelease) Release(context.Context, outbox.Owner) error { return errors.New("away") }

func TestObserverIsToldOfAbandonedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(10)
		store.settleErr = func(int) error { return errors.New("away") }
		store.renewErr = func() error { return errors.New("away") }
		d := &diary{}
		_, stop := startRelay(t, store, confirmAll, outbox.RelayConfig{Observer: d.observer(), BacklogInterval: time.Hour})
		time.Sleep(31 * time.Second)
		stop()
		if d.total["abandoned"] < 10 || d.total["renew failed"] == 0 {
			t.Errorf("told %v", d.total)
		}
	})
}

func TestBacklogIsAskedAtItsInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &backlogStore{memStore: newMemStore(0)}
		start := time.Now()
		var told []time.Duration
		failed := 0
		book, log := newLogBook()
		_, stop := startRelay(t, store, confirmAll, outbox.RelayConfig{Logger: log, Observer: &outbox.Observer{
			Backlog: func(b outbox.Backlog) {
				if b.Waiting != 7 || b.OldestDue != time.Minute {
					t.Errorf("told %+v", b)
				}
				told = append(told, time.Since(start))
			},
			StoreFailed: func(f outbox.StoreFailed) {
				if f.Call == "backlog" {
					failed++
				}
			},
		}})
		time.Sleep(65 * time.Second)
		stop()
		// The second question fails, the third hangs until the next is due.
		if got := fmt.Sprint(told); got != "[0s 45s 1m0s]" || failed != 2 {
			t.Errorf("told at %s, failed %d times", got, failed)
		}
		if book.count("WARN the backlog") != 1 || book.count("INFO counting the backlog works again") != 1 {
			t.Errorf("want the trouble and its end:\n%s", book)
		}
	})
}

func TestNobodyAsksForTheBacklogInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &backlogStore{memStore: newMemStore(0)}
		_, stop := startRelay(t, store, confirmAll, outbox.RelayConfig{Observer: &outbox.Observer{}})
		time.Sleep(time.Minute)
		stop()
		if store.asked != 0 {
			t.Errorf("asked %d times", store.asked)
		}
	})
}

type backlogStore struct {
	*memStore
	asked int
}

func (s *backlogStore) Backlog(ctx context.Context) (outbox.Backlog, error) {
	s.asked++
	switch s.asked {
	case 2:
		return outbox.Backlog{}, errors.New("away")
	case 3:
		<-ctx.Done()
		return outbox.Backlog{}, ctx.Err()
	default:
		return outbox.Backlog{Waiting: 7, OldestDue: time.Minute}, nil
	}
}

// A stop doesn't wait for a question that hangs, and it is no trouble.
func TestStopDuringTheBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &backlogStore{memStore: newMemStore(0), asked: 2}
		book, log := newLogBook()
		d := &diary{}
		_, stop := startRelay(t, store, confirmAll, outbox.RelayConfig{Logger: log, Observer: d.observer()})
		time.Sleep(time.Second)
		begin := time.Now()
		stop()
		if took := time.Since(begin); took != 0 || book.count("WARN") != 0 || d.total["backlog failed"] != 0 {
			t.Errorf("the stop took %v:\n%s", took, book)
		}
	})
}

// Nothing of the relay's runs after Run has returned.
func TestStopWaitsForTheBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowBacklog{memStore: newMemStore(0)}
		_, stop := startRelay(t, store, confirmAll, outbox.RelayConfig{Observer: (&diary{}).observer()})
		synctest.Wait()
		stop()
		if !store.done.Load() {
			t.Error("a question was still under way")
		}
	})
}

// slowBacklog answers late, whatever its context says.
type slowBacklog struct {
	*memStore
	done atomic.Bool
}

func (s *slowBacklog) Backlog(context.Context) (outbox.Backlog, error) {
	time.Sleep(time.Second)
	s.done.Store(true)
	return outbox.Backlog{}, nil
}

func TestObserverThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(100)
		store.settleErr = func(n int) error {
			if n == 1 {
				return errors.New("away")
			}
			return nil
		}
		book, log := newLogBook()
		_, stop := startRelay(t, store, confirmAll, outbox.RelayConfig{Logger: log, BatchSize: 10, Observer: &outbox.Observer{
			Claimed:     func(outbox.Claimed) { panic("secret") },
			Answered:    func(outbox.Answered) { panic("secret") },
			Settled:     func(outbox.Settled) { panic("secret") },
			StoreFailed: func(outbox.StoreFailed) { panic("secret") },
			Backlog:     func(outbox.Backlog) { panic("secret") },
		}})
		time.Sleep(time.Minute)
		stop()
		if n := store.count("published"); n != 100 {
			t.Errorf("%d published, want 100", n)
		}
		if n := book.count("ERROR an observer panicked"); n != 1 {
			t.Errorf("told %d times:\n%s", n, book)
		}
		if contains(book, "secret") || !contains(book, "observer_test.go") {
			t.Error("the panic's value was logged, or its place wasn't")
		}
	})
}
