package outbox_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func TestCleanStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(60)
		answer := make(chan struct{})
		var calls atomic.Int64
		r, stop := startRelay(t, store, publisherWithContext(func(ctx context.Context, m []outbox.Envelope) []error {
			calls.Add(1)
			<-answer
			if ctx.Err() != nil {
				t.Error("the stop cut a publish short")
			}
			results := make([]error, len(m))
			results[0] = outbox.PublishUnknown(errors.New("no reply"))
			results[1] = outbox.PublishHeldBack(errors.New("one before it"))
			return results
		}), outbox.RelayConfig{BatchSize: 10, MaxBatches: 3})
		synctest.Wait()
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		synctest.Wait()
		close(answer)
		<-stopped
		if s := r.Stats(); calls.Load() != 3 || s.Claimed != 30 || s.Published != 24 || s.Released != 3 || s.Unknown != 3 {
			t.Errorf("%d calls, stats %+v, want the batches in flight settled and no more claimed", calls.Load(), s)
		}
		for _, row := range store.rows {
			if row.state == "pending" && row.owner == uuid.Nil && row.due.After(time.Now()) {
				t.Error("an unpublished event is not due at once")
			}
		}
		if len(store.released) != 1 {
			t.Errorf("the owner signed off %d times", len(store.released))
		}
	})
}

func TestStopDuringAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(10)
		store.grant = func(time.Duration) time.Duration { return time.Second } // too little to publish
		claiming, goOn := make(chan struct{}), make(chan struct{})
		store.claimErr = func() error { close(claiming); <-goOn; return nil }
		r, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			t.Error("published after the stop")
			return make([]error, len(m))
		}), outbox.RelayConfig{})
		<-claiming
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		synctest.Wait()
		close(goOn)
		<-stopped
		if s := r.Stats(); s.Claimed != 10 || s.Released != 10 || s.Renewals != 0 {
			t.Errorf("stats %+v, want all that was claimed given back, without a renewal", s)
		}
		for _, row := range store.rows {
			if row.owner != uuid.Nil || row.due.After(time.Now()) {
				t.Error("an unpublished event is not due at once")
			}
		}
	})
}

// A stop during the renewal before a publish: the publish is not begun.
func TestStopDuringARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(10)
		store.grant = func(time.Duration) time.Duration { return time.Second }
		renewing, goOn := make(chan struct{}), make(chan struct{})
		store.renewErr = func() error { close(renewing); <-goOn; return nil }
		r, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			t.Error("published after the stop")
			return make([]error, len(m))
		}), outbox.RelayConfig{})
		<-renewing
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		synctest.Wait()
		close(goOn)
		<-stopped
		if s := r.Stats(); s.Released != 10 {
			t.Errorf("stats %+v, want all that was claimed given back", s)
		}
	})
}

// A stop while messages go one by one after a panic waits for one of them.
func TestStopAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(100)
		singles := 0
		r, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			if len(m) > 1 {
				panic("no")
			}
			singles++
			time.Sleep(4 * time.Second)
			return make([]error, 1)
		}), outbox.RelayConfig{PublishTimeout: 5 * time.Second})
		time.Sleep(5 * time.Second)
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if s := r.Stats(); singles != 2 || s.Published != 2 || s.Released != 98 {
			t.Errorf("%d singles, stats %+v", singles, s)
		}
	})
}

// With the database away, a stop must not wait for the leases' end.
func TestStopWithoutADatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(60)
		r, stop := startRelay(t, hangingStore{store}, publisherBatch(func(m []outbox.Envelope) []error {
			time.Sleep(4 * time.Second)
			return make([]error, len(m))
		}), outbox.RelayConfig{BatchSize: 10, Lease: 60 * time.Second, PublishTimeout: 5 * time.Second, LeaseMargin: 2 * time.Second})
		time.Sleep(time.Second)
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > 9*time.Second {
			t.Errorf("the stop took %v, want at most PublishTimeout and twice LeaseMargin", took)
		}
		if n := r.Stats().Abandoned; n != 40 {
			t.Errorf("%d abandoned, want those of four batches", n)
		}
		_, renewals := store.counts()
		settles := store.settles
		time.Sleep(time.Hour)
		if _, after := store.counts(); after != renewals || store.settles != settles {
			t.Error("the store heard of an abandoned batch")
		}
	})
}

// hangingStore hangs like a database that went away, until a call's context ends.
type hangingStore struct{ *memStore }

func (hangingStore) Settle(ctx context.Context, _ *outbox.Batch, _ []outbox.EventOutcome) (outbox.Settlement, error) {
	<-ctx.Done()
	return outbox.Settlement{}, ctx.Err()
}

func (hangingStore) Renew(ctx context.Context, _ *outbox.Batch, _ time.Duration) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func (hangingStore) Release(ctx context.Context, _ outbox.Owner) error {
	<-ctx.Done()
	return ctx.Err()
}
