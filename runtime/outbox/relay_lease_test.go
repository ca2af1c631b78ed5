package outbox_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// leaseConfig has a half-life of 10 s and a publish timeout beyond it.
var leaseConfig = outbox.RelayConfig{Lease: 20 * time.Second, PublishTimeout: 15 * time.Second, LeaseMargin: 2 * time.Second}

// granting returns a store whose first claim leases for less than asked.
func granting(n int, first time.Duration) *memStore {
	store := newMemStore(n)
	claims := 0
	store.grant = func(asked time.Duration) time.Duration {
		if claims++; claims == 1 {
			return first
		}
		return asked
	}
	return store
}

func TestLeaseIsRenewedBeforeThePublishIfTooShort(t *testing.T) {
	for name, c := range map[string]struct {
		granted  time.Duration
		renewals int
	}{
		"long enough":        {17 * time.Second, 0},
		"a trifle too short": {17*time.Second - 1, 1},
		"over":               {-time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := granting(10, c.granted)
				r, stop := startRelay(t, store, confirmAll, leaseConfig)
				time.Sleep(time.Millisecond)
				stop()
				s := r.Stats()
				if s.Published != 10 || s.Released != 0 || len(store.renewals) != c.renewals || int(s.Renewals) != c.renewals {
					t.Errorf("%d renewals, stats %+v", len(store.renewals), s)
				}
			})
		})
	}
}

func TestTooLittleLeaseIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(10)
		store.grant = func(time.Duration) time.Duration { return 16 * time.Second }
		store.renewErr = func() error { return errors.New("the database is slow") }
		book, log := newLogBook()
		cfg := leaseConfig
		cfg.Logger = log
		r, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			t.Error("published")
			return make([]error, len(m))
		}), cfg)
		time.Sleep(time.Minute)
		stop()
		// Claims are paced as after failures, else they would come without end.
		if claims, _ := store.counts(); claims < 10 || claims > 60 || int(r.Stats().Released) < (claims-2)*10 {
			t.Errorf("%d claims in a minute, stats %+v", claims, r.Stats())
		}
		if book.count("too little of the lease") != 1 || book.count("could not be renewed") != 1 {
			t.Errorf("want each trouble told once:\n%s", book)
		}
	})
}

// When another relay has some of the events, none is published.
func TestRenewOfLessThanTheBatchIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := granting(10, time.Second)
		stolen := store.rows[3].event.Key
		store.renewErr = func() error { store.steal(stolen); return nil }
		book, log := newLogBook()
		cfg := leaseConfig
		cfg.Logger = log
		r, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			if slices.ContainsFunc(m, func(e outbox.Envelope) bool { return e.ID.String() == stolen }) {
				t.Error("another's event was published")
			}
			if claims, _ := store.counts(); claims == 1 {
				t.Error("published although the lease was lost in part")
			}
			return make([]error, len(m))
		}), cfg)
		time.Sleep(time.Second)
		stop()
		if s := r.Stats(); s.Released != 9 || s.Published != 9 {
			t.Errorf("stats %+v, want nine given back, then published", s)
		}
		if n := book.count("no longer under this lease"); n != 1 {
			t.Errorf("told %d times:\n%s", n, book)
		}
	})
}

// Without Batch.Until the lease counts from before the claim.
func TestLeaseCountsFromBeforeTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(10)
		store.noUntil = true
		slow := 3*time.Second + time.Nanosecond
		store.claimErr = func() error { time.Sleep(slow); slow = 0; return nil }
		_, stop := startRelay(t, store, confirmAll, leaseConfig)
		time.Sleep(4 * time.Second)
		stop()
		if len(store.renewals) != 1 || store.count("published") != 10 {
			t.Errorf("%d renewals after a claim that left too little, %d published", len(store.renewals), store.count("published"))
		}
	})
}

// While a publish is under way the lease is renewed when half of it is gone, so
// that the mark finds it.
func TestLeaseIsRenewedDuringThePublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(10)
		start := time.Now()
		r, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			time.Sleep(33 * time.Second) // far beyond its timeout, and within another lease
			return make([]error, len(m))
		}), leaseConfig)
		time.Sleep(40 * time.Second)
		stop()
		want := []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}
		var got []time.Duration
		for _, at := range store.renewals {
			got = append(got, at.Sub(start))
		}
		if !slices.Equal(got, want) || int(r.Stats().Renewals) != len(want) {
			t.Errorf("renewed after %v, want %v; stats %+v", got, want, r.Stats())
		}
		if s := r.Stats(); s.Published != 10 || s.Confirmed != 10 || s.Lost != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestRenewErrorsDoNotStopAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(10)
		start := time.Now()
		tries := 0
		store.renewErr = func() error {
			tries++
			if time.Since(start) < 14*time.Second {
				return errors.New("connection refused")
			}
			return nil
		}
		book, log := newLogBook()
		cfg := leaseConfig
		cfg.Logger = log
		r, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			time.Sleep(24 * time.Second)
			return make([]error, len(m))
		}), cfg)
		time.Sleep(30 * time.Second)
		stop()
		if s := r.Stats(); s.Published != 10 || s.Renewals != 1 || tries < 4 || tries > 30 {
			t.Errorf("%d tries to renew, stats %+v", tries, s)
		}
		if book.count("could not be renewed") != 1 || book.count("renewing leases works again") != 1 {
			t.Errorf("want the trouble and its end:\n%s", book)
		}
	})
}

// Some of the batch is lost during the publish: what the broker confirmed of the
// rest is marked.
func TestLeaseLostInPartDuringThePublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(10)
		r, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			store.steal(store.rows[3].event.Key)
			time.Sleep(25 * time.Second)
			return make([]error, len(m))
		}), leaseConfig)
		time.Sleep(26 * time.Second)
		stop()
		if s := r.Stats(); s.Published != 9 || s.Lost != 1 || s.Renewals != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

// A publisher that never returns must not keep its events from others for ever.
func TestPublisherThatHangsLosesItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(10)
		goOn := make(chan struct{})
		book, log := newLogBook()
		cfg := leaseConfig
		cfg.Logger, cfg.MaxBatches = log, 1
		_, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			<-goOn
			return make([]error, len(m))
		}), cfg)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		// Patience ends 35 s after the begin; the last renewal before was at 30 s.
		if due := store.rows[0].due; due.After(time.Now().Add(-time.Minute)) || len(store.renewals) != 3 {
			t.Errorf("%d renewals, due %v ago", len(store.renewals), time.Since(due))
		}
		if n := book.count("does not return"); n != 1 {
			t.Errorf("told %d times:\n%s", n, book)
		}
		close(goOn)
		stop()
	})
}

// After a panic, a message is sent only while the lease leaves time for it; the
// renewals see to that.
func TestSinglesGoOnUnderARenewedLease(t *testing.T) {
	for name, c := range map[string]struct {
		renewErr  error
		published int
	}{
		"renewed":     {nil, 10},
		"not renewed": {errors.New("away"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newMemStore(10)
				store.renewErr = func() error { return c.renewErr }
				cfg := leaseConfig
				cfg.PublishTimeout = 9 * time.Second
				_, stop := startRelay(t, store, publisherWithContext(func(ctx context.Context, m []outbox.Envelope) []error {
					if len(m) > 1 {
						panic("no")
					}
					time.Sleep(8500 * time.Millisecond)
					return make([]error, 1)
				}), cfg)
				time.Sleep(18 * time.Second)
				if n := store.count("published"); n != 0 && c.renewErr == nil {
					t.Errorf("%d settled in the middle of the batch", n)
				}
				if c.renewErr == nil {
					time.Sleep(68 * time.Second)
				}
				if n := store.count("published"); n < c.published {
					t.Errorf("%d published, want %d", n, c.published)
				}
				stop()
			})
		})
	}
}

// Once a lease was long enough again, claims follow each other as always.
func TestPaceOfShortLeasesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := granting(100, time.Second)
		store.renewErr = func() error { return errors.New("away") }
		cfg := leaseConfig
		cfg.BatchSize, cfg.MaxBatches = 1, 1
		_, stop := startRelay(t, store, confirmAll, cfg)
		time.Sleep(time.Second)
		stop()
		if n := store.count("published"); n != 100 {
			t.Errorf("%d published in a second, want 100", n)
		}
	})
}
