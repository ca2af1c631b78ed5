package outbox_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func TestRelayPublishesAndMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(1234)
		var published atomic.Int64
		r, stop := startRelay(t, store, publisherFunc(func(context.Context, outbox.Envelope) error {
			published.Add(1)
			return nil
		}), outbox.RelayConfig{BatchSize: 100})
		time.Sleep(time.Second)
		stop()
		if store.count("published") != 1234 || published.Load() != 1234 {
			t.Errorf("marked %d, published %d, want 1234 of both", store.count("published"), published.Load())
		}
		if s := r.Stats(); s.Published != 1234 || s.Confirmed != 1234 || s.Claimed != 1234 {
			t.Errorf("stats %+v", s)
		}
		if len(store.released) != 1 {
			t.Errorf("the owner signed off %d times, want once", len(store.released))
		}
	})
}

func TestFailedEventIsRetriedThenDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(0)
		bad, good := store.add("bad"), store.add("good")
		var attempts []time.Time
		_, stop := startRelay(t, store, publisherFunc(func(_ context.Context, e outbox.Envelope) error {
			if e.AggregateID == "bad" {
				attempts = append(attempts, time.Now())
				return outbox.PublishFailed(errors.New("no"))
			}
			return nil
		}), outbox.RelayConfig{MaxAttempts: 4, RetryBackoff: time.Second})
		time.Sleep(time.Minute)
		stop()
		if row := store.row(bad); row.state != "dead" || row.event.Attempts != 4 || !strings.Contains(row.lastError, "no") {
			t.Errorf("the failing event is %s after %d attempts (%s), want dead after 4", row.state, row.event.Attempts, row.lastError)
		}
		if len(attempts) != 4 {
			t.Fatalf("%d attempts, want 4", len(attempts))
		}
		for i, least := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
			if wait := attempts[i+1].Sub(attempts[i]); wait < least || wait > 2*least+time.Second {
				t.Errorf("wait %d was %v, want %v to %v", i+1, wait, least, 2*least)
			}
		}
		if store.row(good).state != "published" {
			t.Error("the good event was held up")
		}
	})
}

func TestRejectedEventIsDeadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(0)
		key := store.add("x")
		_, stop := startRelay(t, store, publisherFunc(func(context.Context, outbox.Envelope) error {
			return outbox.PublishRejected(errors.New("too large"))
		}), outbox.RelayConfig{})
		time.Sleep(time.Second)
		stop()
		if row := store.row(key); row.state != "dead" || row.event.Attempts != 1 {
			t.Errorf("%s after %d attempts, want dead after 1", row.state, row.event.Attempts)
		}
	})
}

func TestInvalidRowIsBuriedAndDoesNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(3)
		store.rows[1].event.Invalid = errors.New("not an event id")
		published := 0
		_, stop := startRelay(t, store, publisherFunc(func(context.Context, outbox.Envelope) error {
			published++
			return nil
		}), outbox.RelayConfig{})
		time.Sleep(time.Second)
		stop()
		if store.rows[1].state != "dead" || published != 2 || store.count("published") != 2 {
			t.Errorf("invalid row is %s, %d published", store.rows[1].state, published)
		}
	})
}

func TestUnknownOutcomeIsLeftToItsLease(t *testing.T) {
	for name, answer := range map[string]error{
		"said to be unknown":  outbox.PublishUnknown(errors.New("no reply")),
		"of no kind":          errors.New("anything"),
		"a context's timeout": context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newMemStore(0)
				key := store.add("x")
				var tries []time.Time
				_, stop := startRelay(t, store, publisherFunc(func(context.Context, outbox.Envelope) error {
					tries = append(tries, time.Now())
					if len(tries) == 1 {
						return answer
					}
					return nil
				}), outbox.RelayConfig{Lease: 30 * time.Second})
				time.Sleep(29 * time.Second)
				if row := store.row(key); row.owner == uuid.Nil || row.state != "pending" {
					t.Error("the row was given back while the broker may have the message")
				}
				time.Sleep(3 * time.Second)
				stop()
				if len(tries) != 2 || tries[1].Sub(tries[0]) < 30*time.Second {
					t.Errorf("tried at %v, want again after the lease", tries)
				}
				if row := store.row(key); row.state != "published" || row.event.Attempts != 0 {
					t.Errorf("%s, %d attempts counted", row.state, row.event.Attempts)
				}
			})
		})
	}
}

func TestWrongNumberOfResultsIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(3)
		r, stop := startRelay(t, store, publisherBatch(func([]outbox.Envelope) []error { return nil }), outbox.RelayConfig{})
		time.Sleep(time.Second)
		stop()
		if store.count("published") != 0 || r.Stats().Unknown != 3 {
			t.Errorf("%d marked, stats %+v", store.count("published"), r.Stats())
		}
	})
}

func TestDeadRelaysEventsAreClaimedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(5)
		// A relay that claims and then dies.
		if _, err := store.Claim(t.Context(), outbox.ClaimRequest{Owner: outbox.Owner{ID: outbox.NewEventID()}, Limit: 5, Lease: 30 * time.Second}); err != nil {
			t.Fatal(err)
		}
		_, stop := startRelay(t, store, publisherFunc(func(context.Context, outbox.Envelope) error { return nil }), outbox.RelayConfig{})
		time.Sleep(29 * time.Second)
		if n := store.count("published"); n != 0 {
			t.Errorf("%d events published under another's lease", n)
		}
		time.Sleep(2 * time.Second)
		stop()
		if n := store.count("published"); n != 5 {
			t.Errorf("%d published after the lease ended, want 5", n)
		}
	})
}

func TestLostLeaseIsCountedAndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(0)
		key := store.add("x")
		r, stop := startRelay(t, store, publisherFunc(func(context.Context, outbox.Envelope) error {
			// While this relay publishes, another one takes the row.
			store.steal(key)
			return nil
		}), outbox.RelayConfig{})
		time.Sleep(time.Second)
		stop()
		if s := r.Stats(); s.Lost != 1 || s.Published != 0 {
			t.Errorf("stats %+v, want one lost lease", s)
		}
		if row := store.row(key); row.state != "pending" || row.token != 99 {
			t.Errorf("the row is %s of %s", row.state, row.owner)
		}
	})
}

func TestBackoffDoesNotOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const year = 365 * 24 * time.Hour
		store, attempts := newMemStore(1), 0
		_, stop := startRelay(t, store, publisherFunc(func(context.Context, outbox.Envelope) error {
			attempts++
			return outbox.PublishFailed(errors.New("no"))
		}), outbox.RelayConfig{RetryBackoff: 150 * year, RetryBackoffMax: math.MaxInt64, PollInterval: year / 12})
		time.Sleep(160 * year)
		stop()
		if attempts != 2 {
			t.Errorf("%d attempts, want 2", attempts)
		}
	})
}

func TestRelayConfigIsChecked(t *testing.T) {
	p := publisherFunc(func(context.Context, outbox.Envelope) error { return nil })
	for name, cfg := range map[string]outbox.RelayConfig{
		"lease shorter than publish and margins": {Lease: 12*time.Second - 1, PublishTimeout: 10 * time.Second, LeaseMargin: time.Second},
		"all lease is margin":                    {Lease: 10 * time.Second, PublishTimeout: 1, LeaseMargin: 5 * time.Second},
		"no batches":                             {MaxBatches: -1},
		"negative backlog interval":              {BacklogInterval: -1},
		"overflow":                               {Lease: time.Hour, PublishTimeout: math.MaxInt64, LeaseMargin: math.MaxInt64},
		"negative":                               {PollInterval: -1},
		"huge batch":                             {BatchSize: 100_000},
	} {
		if _, err := outbox.NewRelay(newMemStore(0), p, &cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := outbox.NewRelay(nil, p, nil); err == nil {
		t.Error("no store: no error")
	}
	for name, cfg := range map[string]*outbox.RelayConfig{
		"defaults":         nil,
		"a lease as short": {Lease: 12 * time.Second, PublishTimeout: 10 * time.Second, LeaseMargin: time.Second},
	} {
		if _, err := outbox.NewRelay(newMemStore(0), p, cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
