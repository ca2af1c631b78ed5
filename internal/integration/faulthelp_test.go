package integration

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// ledger is a broker that keeps what it confirmed, in that order.
type ledger struct {
	// before is called before a confirm, if it is set.
	before func(ctx context.Context, messages []outbox.Envelope)

	mu  sync.Mutex
	got []outbox.Envelope
}

func (l *ledger) Publish(ctx context.Context, messages []outbox.Envelope) []error {
	if l.before != nil {
		l.before(ctx, messages)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, messages...)
	return make([]error, len(messages))
}

// check looks for what was lost or, where an order is promised, published before an
// earlier event of its aggregate, and returns how often one was published again.
func (l *ledger) check(t testing.TB, k kind, ids []uuid.UUID) (repeats int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	times, last := map[uuid.UUID]int{}, map[string]int64{}
	for _, m := range l.got {
		times[m.ID]++
		// A repeat may go back to an earlier version. Nothing may skip one.
		if k.ordered && m.AggregateVersion > last[m.AggregateID]+1 {
			t.Errorf("version %d of %s came after version %d", m.AggregateVersion, m.AggregateID, last[m.AggregateID])
		}
		last[m.AggregateID] = m.AggregateVersion
	}
	for _, id := range ids {
		if times[id] == 0 {
			t.Errorf("event %s was lost", id)
		}
		repeats += max(0, times[id]-1)
	}
	return repeats
}

// writeSeries writes events of that many orders, in each the versions from 1 on,
// one transaction a version, and returns their ids.
func (k kind) writeSeries(t testing.TB, db *outbox.DB, orders, versions int64) []uuid.UUID {
	t.Helper()
	var ids []uuid.UUID
	for version := range versions {
		outcome, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
			for order := range orders {
				id := outbox.NewEventID()
				ids = append(ids, id)
				if err := k.write(t.Context(), tx, id, order+1, version+1); err != nil {
					return err
				}
			}
			return nil
		})
		if outcome != outbox.Committed {
			t.Fatal(outcome, err)
		}
	}
	return ids
}

// warningLog counts what was logged as a warning or worse, by its text.
type warningLog struct {
	mu     sync.Mutex
	counts map[string]int
}

func (l *warningLog) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}
func (l *warningLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *warningLog) WithGroup(string) slog.Handler      { return l }

func (l *warningLog) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts = map[string]int{}
	}
	l.counts[r.Message]++
	return nil
}

func (l *warningLog) warnings() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.counts)
}

// atWork is a relay that runs, with what it told.
type atWork struct {
	*outbox.Relay
	log warningLog

	mu      sync.Mutex
	failed  map[string]int // calls of the store
	failing chan struct{}  // receives after each
	end     func()
}

// startRelay runs a relay until its stop, or the test's end.
func startRelay(t testing.TB, store outbox.Store, broker outbox.Publisher, cfg outbox.RelayConfig) *atWork {
	t.Helper()
	w := &atWork{failed: map[string]int{}, failing: make(chan struct{}, 1000)}
	cfg.Logger = slog.New(&w.log)
	if cfg.Observer == nil {
		cfg.Observer = &outbox.Observer{}
	}
	cfg.Observer.StoreFailed = func(f outbox.StoreFailed) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.failed[f.Call]++
		w.failing <- struct{}{}
	}
	cfg.PollInterval = 20 * time.Millisecond
	cfg.OutageBackoff, cfg.OutageBackoffMax = 10*time.Millisecond, 100*time.Millisecond
	var err error
	if w.Relay, err = outbox.NewRelay(store, broker, &cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	w.end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(w.end)
	return w
}

// failures counts the failed calls of the store.
func (w *atWork) failures() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.failed)
}

// awaitFailures returns when calls of the store have failed so often since the last look.
func (w *atWork) awaitFailures(t testing.TB, n int) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for range n {
		select {
		case <-w.failing:
		case <-deadline:
			t.Fatal("the store did not fail so often: the fault did not happen")
		}
	}
}

// awaitPublished returns when every event is marked.
func awaitPublished(t testing.TB, db *outbox.DB) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); count(t, db, "outbox_event WHERE status <> 2") > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d events are not published", count(t, db, "outbox_event WHERE status <> 2"))
		}
		time.Sleep(10 * time.Millisecond) // what is waited for is a row
	}
}

// checkCalm stops the relay and looks at what trouble with the database did to it:
// nothing lost, given up or counted as an attempt, and one warning of each kind.
func (w *atWork) checkCalm(t testing.TB, db *outbox.DB, events int, kinds ...string) {
	t.Helper()
	w.end()
	s := w.Stats()
	if s.Published != int64(events) || s.Confirmed != int64(events) || s.Lost+s.Abandoned+s.Dead+s.Retried+s.OutOfOrder != 0 {
		t.Errorf("%+v, want %d events published and no more", s, events)
	}
	if n := count(t, db, "outbox_event WHERE attempts > 0 OR status = 3"); n > 0 {
		t.Errorf("of %d events an attempt was counted", n)
	}
	want := map[string]int{}
	for _, kind := range kinds {
		want[kind] = 1
	}
	if got := w.log.warnings(); !maps.Equal(got, want) {
		t.Errorf("the relay warned of %v, want one warning of each of %v", got, slices.Collect(maps.Keys(want)))
	}
}

// warnings by the call of the store.
var warningOf = map[string]string{
	"claim":  "claim failed; waiting for the database",
	"settle": "settle failed; trying again",
	"renew":  "leases could not be renewed",
	"check":  "the database could not be asked whether it is fit for an outbox; it is asked again before the first claim",
}

// await returns when there are rows.
func await(t testing.TB, db *outbox.DB, rows string, args ...any) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); count(t, db, rows, args...) == 0; {
		if time.Now().After(deadline) {
			t.Fatalf("no rows of %s came", rows)
		}
		time.Sleep(10 * time.Millisecond) // what is waited for is a row
	}
}
