package purge_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/purge"
)

func (f *fake) consume(consumer string, at time.Time) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastID++
	f.consumed = append(f.consumed, consumed{id: f.lastID, consumer: consumer, at: at})
	return f.lastID
}

func (f *fake) rows() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.consumed)
}

// oldest is how old the oldest row of a consumer is, and how many it has.
func (f *fake) oldest(consumer string) (age time.Duration, rows int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.consumed {
		if c.consumer == consumer {
			age = max(age, time.Since(c.at))
			rows++
		}
	}
	return age, rows
}

func dedupPurger(t *testing.T, f *fake, retain map[string]time.Duration, cfg purge.Config) *purge.Purger {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	p, err := purge.NewDedup(f.pool(t), f, retain, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDedupKeepsTheHorizon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		const retain = time.Hour
		for i := range 100 {
			f.consume("a", time.Now().Add(-retain-time.Duration(100-i)*time.Microsecond))
		}
		f.consume("a", time.Now().Add(-retain)) // not older than that
		f.consume("a", time.Now())
		f.consume("unknown", time.Now().Add(-1000*retain))
		f.took = func(int) time.Duration { return 0 }
		pass := mustPurge(t, dedupPurger(t, f, map[string]time.Duration{"a": retain}, purge.Config{}))
		if pass.Consumed != 100 || f.rows() != 3 {
			t.Errorf("%+v, and %d are left", pass, f.rows())
		}
		// Not by a microsecond, also when the time is no multiple of it.
		pass = mustPurge(t, dedupPurger(t, f, map[string]time.Duration{"a": retain - 1}, purge.Config{}))
		if pass.Consumed != 0 {
			t.Errorf("%+v", pass)
		}
		pass = mustPurge(t, dedupPurger(t, f, map[string]time.Duration{"a": retain - time.Microsecond}, purge.Config{}))
		if pass.Consumed != 1 {
			t.Errorf("%+v", pass)
		}
	})
}

// Months of a table in which the rows of consumers with different times lie mixed:
// each is deleted in time, and no pass reads what another one has read.
func TestDedupOfMixedConsumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		const day = 24 * time.Hour
		retain := map[string]time.Duration{"short": time.Hour, "long": 4 * day, "long too": 4 * day, "between": day}
		consumers := []string{"long", "long", "long too", "between", "unknown", "long", "short"}
		before := 0
		for age := 8 * day; age > 0; age -= 10 * time.Minute {
			f.consume(consumers[before%len(consumers)], time.Now().Add(-age))
			before++
		}
		stop := start(t, dedupPurger(t, f, retain, purge.Config{BatchSize: 50}))
		wait(time.Minute)
		f.checkAges(t, retain)
		// The first look reads all of it once, for all consumers together, and
		// little twice where their ways part.
		if rows, _ := f.read("select consumed"); rows > before+3*50 {
			t.Errorf("%d rows were read at first, of %d", rows, before)
		}
		f.forget()
		written := 0
		for begun := time.Now(); time.Since(begun) < 8*day; written++ {
			f.consume(consumers[written%len(consumers)], time.Now())
			wait(10 * time.Minute)
			f.checkAges(t, retain)
		}
		stop()
		// Each row by each of three cursors, the whole table once a day, and those that
		// stop a cursor at every pass.
		rows, fromStart := f.read("select consumed")
		if perPass := 3 * 50; rows > 3*(before+written)+8*(before+written)+8*24*60*perPass {
			t.Errorf("%d rows were read of %d", rows, before+written)
		}
		if fromStart > 9 {
			t.Errorf("%d looks from the start in 8 days", fromStart)
		}
		if _, n := f.oldest("unknown"); n < (before+written)/len(consumers)-1 {
			t.Errorf("%d rows of a consumer that is not named are left", n)
		}
	})
}

func (f *fake) checkAges(t *testing.T, retain map[string]time.Duration) {
	t.Helper()
	for consumer, d := range retain {
		if age, n := f.oldest(consumer); age > d+11*time.Minute || d > time.Hour && n == 0 {
			t.Fatalf("%s has %d rows, the oldest of %v; they are kept for %v", consumer, n, age, d)
		}
	}
}

// A restart's walk is not repeated, however many rows it leaves.
func TestDedupReadsOnlyWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for i := range 20_000 {
			f.consume("long", time.Now().Add(-2*time.Hour+time.Duration(i)*time.Microsecond))
		}
		f.consume("short", time.Now().Add(-2*time.Hour+time.Second))
		retain := map[string]time.Duration{"short": time.Hour, "long": 1000 * time.Hour}
		stop := start(t, dedupPurger(t, f, retain, purge.Config{BatchSize: 100}))
		wait(30 * time.Second)
		if _, n := f.oldest("short"); n != 0 {
			t.Error("the row behind the others was not found")
		}
		f.forget()
		wait(10 * time.Minute)
		stop()
		if rows, _ := f.read("select consumed"); rows > 11*100 { // the cursor of long, which stands at the start
			t.Errorf("%d rows were read in ten idle minutes", rows)
		}
	})
}

// A clock that was years ahead for a moment must not stop the purge for years.
func TestDedupRowOfTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		future := f.consume("a", time.Now().Add(10*365*24*time.Hour))
		f.consume("a", time.Now().Add(-2*time.Hour))
		mustPurge(t, dedupPurger(t, f, map[string]time.Duration{"a": time.Hour}, purge.Config{}))
		if len(f.consumed) != 1 || f.consumed[0].id != future {
			t.Errorf("left: %+v", f.consumed)
		}
	})
}

// A row that is locked holds up its own cursor, and nothing is skipped.
func TestDedupLockedRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for i := range 1000 {
			f.consume([]string{"a", "b"}[i%2], time.Now().Add(-2*time.Hour+time.Duration(i)*time.Microsecond))
		}
		for range 50 {
			f.consume("c", time.Now().Add(-time.Hour))
		}
		locked := time.Now().Add(30 * time.Minute)
		f.before = func(_ context.Context, call string) error {
			if call == "delete consumed" && time.Now().Before(locked) {
				time.Sleep(5 * time.Second)
				return errLocked
			}
			return nil
		}
		p := dedupPurger(t, f, map[string]time.Duration{"a": time.Hour, "b": time.Hour, "c": time.Minute}, purge.Config{BatchSize: 100})
		stop := start(t, p)
		wait(29 * time.Minute)
		if s := p.Stats(); f.rows() != 1050 || s.Deferred == 0 || s.Failures > 0 {
			t.Errorf("%d rows are left, %+v", f.rows(), s)
		}
		wait(3 * time.Minute)
		stop()
		if f.rows() != 0 {
			t.Errorf("%d rows are left", f.rows())
		}
	})
}

// Two purgers can't wait for each other: they delete in one order.
func TestDedupDeletesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		retain := map[string]time.Duration{}
		for _, consumer := range []string{"c", "a", "b", "d", "e"} {
			retain[consumer] = time.Hour
			f.consume(consumer, time.Now().Add(-2*time.Hour))
			f.consume(consumer, time.Now().Add(-2*time.Hour))
		}
		var order []string
		queries := deleteOrder{fake: f, order: &order}
		p, err := purge.NewDedup(f.pool(t), queries, retain, &purge.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if pass := mustPurge(t, p); pass.Consumed != 10 || !slices.IsSorted(order) || len(order) != 5 {
			t.Errorf("%+v, deleted %v", pass, order)
		}
	})
}

// deleteOrder notes the order in which consumers' rows are deleted.
type deleteOrder struct {
	*fake
	order *[]string
}

func (d deleteOrder) DeleteConsumed(ctx context.Context, db outbox.DBTX, p purge.DeleteConsumedParams) (int64, error) {
	*d.order = append(*d.order, p.ConsumerName)
	if p.RetainUs != time.Hour.Microseconds() {
		return 0, errors.New("a DELETE with another time to retain")
	}
	return d.fake.DeleteConsumed(ctx, db, p)
}
