package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// An hour without a database: told at the begin, every ten minutes with the
// count since, and at the end.
func TestDatabaseOutageIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(1)
		start := time.Now()
		failed := 0
		store.claimErr = func() error {
			if time.Since(start) < time.Hour {
				failed++
				return errors.New("connection refused")
			}
			return nil
		}
		book, log := newLogBook()
		_, stop := startRelay(t, store, confirmAll, outbox.RelayConfig{Logger: log})
		time.Sleep(90 * time.Minute)
		stop()
		if store.count("published") != 1 {
			t.Error("the relay did not go on after the outage")
		}
		warnings, over := book.count("WARN claim failed"), book.count("INFO claims work again")
		if warnings != 6 || over != 1 {
			t.Errorf("told %d times and %d times to be over, want 6 and once:\n%s", warnings, over, book)
		}
		if total := sumOf(book, "count="); total != failed {
			t.Errorf("%d failures were told, want %d", total, failed)
		}
		if n := book.count(""); n != 6+1+2 { // and the relay's begin and end
			t.Errorf("%d lines:\n%s", n, book)
		}
	})
}

// sumOf adds up an attribute.
func sumOf(b *logBook, attribute string) int {
	total := 0
	for _, line := range strings.Split(b.String(), "\n") {
		if _, rest, ok := strings.Cut(line, attribute); ok {
			n := 0
			_, _ = fmt.Sscan(rest, &n)
			total += n
		}
	}
	return total
}

// A database that comes and goes is told of less and less often, not at each turn.
func TestFlappingDatabaseIsNoFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(0)
		start := time.Now()
		store.claimErr = func() error {
			since := time.Since(start)
			flaps := since < time.Hour && since.Truncate(time.Second)%(2*time.Second) == 0
			again := since >= 80*time.Minute && (since < 81*time.Minute || since > 81*time.Minute+10*time.Second)
			if flaps || again {
				return errors.New("connection refused")
			}
			return nil
		}
		book, log := newLogBook()
		_, stop := startRelay(t, store, confirmAll, outbox.RelayConfig{Logger: log})
		time.Sleep(time.Hour)
		synctest.Wait()
		warnings, over := book.count("WARN claim failed"), book.count("INFO claims work again")
		if warnings < 6 || warnings > 13 || over > warnings || over < warnings-1 {
			t.Errorf("%d warnings and %d ends in an hour", warnings, over)
		}
		t.Logf("%d warnings and %d ends in an hour", warnings, over)

		// A new outage after a quiet time is told at once.
		time.Sleep(20*time.Minute - 1)
		synctest.Wait()
		quietWarnings := book.count("WARN claim failed")
		time.Sleep(time.Second)
		synctest.Wait()
		if n := book.count("WARN claim failed"); n != quietWarnings+1 {
			t.Errorf("a new outage was told %d times at once, want once", n-quietWarnings)
		}
		// And its relapse, after a minute, soon.
		time.Sleep(90 * time.Second)
		stop()
		if n := book.count("WARN claim failed"); n != quietWarnings+2 {
			t.Errorf("a new outage and its relapse were told %d times, want twice", n-quietWarnings)
		}
	})
}

// A short relapse is told soon, for somebody may think that it is over.
func TestRelapseThatLastsIsToldSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(0)
		start := time.Now()
		store.claimErr = func() error {
			if since := time.Since(start); since < time.Minute || since > 61*time.Second {
				return errors.New("connection refused")
			}
			return nil
		}
		book, log := newLogBook()
		_, stop := startRelay(t, store, confirmAll, outbox.RelayConfig{Logger: log, OutageBackoffMax: 200 * time.Millisecond})
		time.Sleep(75 * time.Second)
		stop()
		if warnings, over := book.count("WARN claim failed"), book.count("INFO claims work again"); warnings != 2 || over != 1 {
			t.Errorf("%d warnings, %d ends, want 2 and 1:\n%s", warnings, over, book)
		}
	})
}

// An hour in which settlements fail.
func TestSettleOutageIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(100)
		start := time.Now()
		store.settleErr = func(int) error {
			if time.Since(start) < time.Hour {
				return errors.New("connection refused")
			}
			return nil
		}
		store.renewErr = func() error { return errors.New("connection refused") }
		book, log := newLogBook()
		_, stop := startRelay(t, store, confirmAll, outbox.RelayConfig{Logger: log, BatchSize: 10})
		time.Sleep(2 * time.Hour)
		stop()
		if n := store.count("published"); n != 100 {
			t.Errorf("%d published", n)
		}
		for text, want := range map[string]int{
			"settle failed": 6, "settling works again": 1, "could not be renewed": 6, "settle given up": 6,
		} {
			if n := book.count(text); n < 1 || n > want {
				t.Errorf("%q was told %d times, want at most %d", text, n, want)
			}
		}
	})
}

func TestUnknownOutcomesAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(100)
		start := time.Now()
		book, log := newLogBook()
		_, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			if time.Since(start) < time.Hour {
				return answerAll(m, errors.New("no reply"))
			}
			return make([]error, len(m))
		}), outbox.RelayConfig{Logger: log})
		time.Sleep(2 * time.Hour)
		stop()
		for text, want := range map[string]int{
			"WARN publish outcomes unknown": 6, "INFO publish outcomes are known again": 1,
			"WARN the broker does not answer": 6, "INFO the broker is available again": 1,
		} {
			if n := book.count(text); n != want {
				t.Errorf("%q was told %d times, want %d", text, n, want)
			}
		}
	})
}

// That the broker is away doesn't make outcomes known.
func TestUnknownOutcomesDoNotEndWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(100)
		calls := 0
		book, log := newLogBook()
		_, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			if calls++; calls%2 == 1 {
				return answerAll(m, outbox.PublishUnknown(errors.New("no reply")))
			}
			return answerAll(m, outbox.PublishUnavailable(errors.New("connection refused")))
		}), outbox.RelayConfig{Logger: log, BatchSize: 1, MaxBatches: 1})
		time.Sleep(time.Minute)
		stop()
		if n := book.count("are known again"); n != 0 || calls < 10 {
			t.Errorf("the end was told %d times in %d calls", n, calls)
		}
	})
}

// Leases that are lost, batch after batch.
func TestLostLeasesAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(100)
		book, log := newLogBook()
		r, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			for _, e := range m {
				store.steal(e.ID.String())
			}
			return make([]error, len(m))
		}), outbox.RelayConfig{Logger: log, BatchSize: 1})
		time.Sleep(time.Minute)
		stop()
		if n := book.count("no longer under this lease"); n != 1 || r.Stats().Lost != 100 {
			t.Errorf("told %d times of %d", n, r.Stats().Lost)
		}
	})
}

// Each dead event is told, but not more than ten in a minute; the rest in one line.
func TestDeadEventsAreToldInBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(10_000)
		book, log := newLogBook()
		r, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			time.Sleep(50 * time.Second)
			return answerAll(m, outbox.PublishRejected(errors.New("too large")))
		}), outbox.RelayConfig{Logger: log, BatchSize: 1000, MaxBatches: 1, Lease: 5 * time.Minute, PublishTimeout: time.Minute})
		time.Sleep(8 * time.Minute)
		synctest.Wait()
		// Batches die after 50 s, 100 s, ..., so that a minute has one or two.
		if n := book.count("WARN event is dead"); n < 50 || n > 80 {
			t.Errorf("%d single lines in 8 minutes", n)
		}
		time.Sleep(2 * time.Minute)
		stop()
		if total := book.count("WARN event is dead") + sumOf(book, "events="); total != 10_000 || r.Stats().Dead != 10_000 {
			t.Errorf("%d dead events were told, one by one or not, want all of %d", total, r.Stats().Dead)
		}
	})
}

func TestDeadEventsAreToldAtTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, log := newLogBook()
		_, stop := startRelay(t, newMemStore(100), publisherBatch(func(m []outbox.Envelope) []error {
			return answerAll(m, outbox.PublishRejected(errors.New("too large")))
		}), outbox.RelayConfig{Logger: log})
		time.Sleep(time.Second)
		stop()
		if one, more := book.count("WARN event is dead"), sumOf(book, "events="); one != 10 || more != 90 {
			t.Errorf("%d told one by one, %d in all, want 10 and 90:\n%s", one, more, book)
		}
	})
}

func TestFewDeadEventsAreAllTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(10)
		lost := store.rows[4].event.Key
		book, log := newLogBook()
		_, stop := startRelay(t, store, publisherFunc(func(_ context.Context, e outbox.Envelope) error {
			if e.ID.String() == lost {
				store.steal(lost)
			}
			return outbox.PublishRejected(errors.New("too large"))
		}), outbox.RelayConfig{Logger: log})
		time.Sleep(time.Second)
		stop()
		if n, more := book.count("WARN event is dead"), book.count("more events are dead"); n != 9 || more != 0 {
			t.Errorf("%d lines and %d of more, want 9 and none", n, more)
		}
		if contains(book, "event="+lost) {
			t.Error("an event that is another relay's was told to be dead")
		}
	})
}
