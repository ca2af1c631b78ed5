package outbox_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// A settlement waits for the renewal under way, rather than run beside it.
func TestSettleWaitsForTheRenewalUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(10)
		store.renewErr = func() error { time.Sleep(3 * time.Second); return nil }
		r, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			time.Sleep(11 * time.Second) // the renewal begins after 10 s
			return make([]error, len(m))
		}), leaseConfig)
		time.Sleep(13*time.Second - 1)
		if n := r.Stats().Published; n != 0 {
			t.Errorf("%d marked before the renewal was over", n)
		}
		time.Sleep(2 * time.Nanosecond)
		stop()
		if s := r.Stats(); s.Published != 10 || s.Renewals != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

// As long as the lease can be renewed, a settlement is tried again.
func TestSettleIsTriedAgainUnderARenewedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(10)
		start := time.Now()
		store.settleErr = func(int) error {
			if time.Since(start) < 100*time.Second {
				return errors.New("lock wait timeout")
			}
			return nil
		}
		var calls atomic.Int64
		book, log := newLogBook()
		cfg := leaseConfig
		cfg.Logger = log
		r, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			calls.Add(1)
			return make([]error, len(m))
		}), cfg)
		time.Sleep(2 * time.Minute)
		stop()
		if s := r.Stats(); s.Published != 10 || s.Abandoned != 0 || calls.Load() != 1 || s.Renewals < 6 || s.Renewals > 12 {
			t.Errorf("%d calls, stats %+v, want all marked after one publish", calls.Load(), s)
		}
		if book.count("settle failed") != 1 || book.count("settling works again") != 1 {
			t.Errorf("want the trouble and its end:\n%s", book)
		}
	})
}

// Without renewals a settlement is given up at the lease's end; with them, when it
// has failed for ten leases. The store then hears no more of the batch.
func TestSettleIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		renewErr error
		after    time.Duration
	}{
		"with the lease": {errors.New("away"), 20 * time.Second},
		"in the end":     {nil, 200 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newMemStore(10)
				var last time.Time
				store.settleErr = func(int) error { last = time.Now(); return errors.New("away") }
				store.renewErr = func() error { return c.renewErr }
				start, claims := time.Now(), 0
				store.claimErr = func() error { // one batch only
					if claims++; claims > 1 {
						return errors.New("away")
					}
					return nil
				}
				r, stop := startRelay(t, store, confirmAll, leaseConfig)
				time.Sleep(c.after - time.Millisecond)
				if n := r.Stats().Abandoned; n != 0 {
					t.Errorf("%d abandoned too early", n)
				}
				time.Sleep(time.Second)
				if n := r.Stats().Abandoned; n != 10 {
					t.Errorf("%d abandoned, want 10", n)
				}
				if last.Sub(start) != c.after {
					t.Errorf("the last try was after %v, want one at the end, after %v", last.Sub(start), c.after)
				}
				_, renewals := store.counts()
				time.Sleep(time.Hour)
				stop()
				if _, after := store.counts(); after != renewals || time.Since(last) < time.Hour {
					t.Error("the store heard of an abandoned batch")
				}
			})
		})
	}
}

func TestSettleIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(10)
		store.settleErr = func(n int) error {
			if n < 5 {
				return errors.New("the database is away")
			}
			return nil
		}
		var calls atomic.Int64
		_, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			calls.Add(1)
			return make([]error, len(m))
		}), outbox.RelayConfig{})
		time.Sleep(20 * time.Second)
		stop()
		if store.count("published") != 10 || calls.Load() != 1 {
			t.Errorf("%d marked after %d publishes, want 10 after 1", store.count("published"), calls.Load())
		}
	})
}

// A call that hangs is cut, so that the lease has time for another.
func TestSettleThatHangsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(10)
		r, stop := startRelay(t, &hangsOnce{memStore: store}, confirmAll, leaseConfig)
		time.Sleep(7 * time.Second) // a quarter of the lease, and a backoff
		if s := r.Stats(); s.Published != 10 {
			t.Errorf("stats %+v", s)
		}
		stop()
	})
}

type hangsOnce struct {
	*memStore
	hung atomic.Bool
}

func (s *hangsOnce) Settle(ctx context.Context, b *outbox.Batch, o []outbox.EventOutcome) (outbox.Settlement, error) {
	if s.hung.CompareAndSwap(false, true) {
		<-ctx.Done()
		return outbox.Settlement{}, ctx.Err()
	}
	return s.memStore.Settle(ctx, b, o)
}
