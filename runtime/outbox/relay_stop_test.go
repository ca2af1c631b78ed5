package outbox_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func TestCleanStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(30)
		publishing := make(chan struct{}, 10)
		answer := make(chan struct{})
		r, stop := startRelay(t, store, publisherWithContext(func(ctx context.Context, m []outbox.Envelope) []error {
			publishing <- struct{}{}
			<-answer
			if ctx.Err() != nil {
				t.Error("the stop cut a publish short")
			}
			return make([]error, len(m))
		}), outbox.RelayConfig{BatchSize: 10})
		<-publishing
		synctest.Wait() // the second batch is claimed and waits
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		synctest.Wait()
		close(answer)
		<-stopped
		if s := r.Stats(); s.Published != 10 || s.Released != 10 || s.Claimed != 20 {
			t.Errorf("stats %+v, want the batch in flight marked and the one behind it given back", s)
		}
		allDue(t, store)
	})
}

func TestStopDuringAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(10)
		claiming, goOn := make(chan struct{}), make(chan struct{})
		store.claimErr = func() error { close(claiming); <-goOn; return nil }
		r, stop := startRelay(t, claimContext{store}, publisherBatch(func(m []outbox.Envelope) []error {
			t.Error("published after the stop")
			return make([]error, len(m))
		}), outbox.RelayConfig{})
		<-claiming
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		synctest.Wait()
		close(goOn)
		<-stopped
		if s := r.Stats(); s.Claimed != 10 || s.Released != 10 {
			t.Errorf("stats %+v, want all that was claimed given back", s)
		}
		allDue(t, store)
	})
}

// claimContext fails a claim whose context has ended, as a database would.
type claimContext struct{ *memStore }

func (s claimContext) Claim(ctx context.Context, c outbox.ClaimRequest) (*outbox.Batch, error) {
	b, err := s.memStore.Claim(ctx, c)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return b, err
}

// allDue requires that what waits is due at once.
func allDue(t *testing.T, store *memStore) {
	t.Helper()
	for _, row := range store.rows {
		if row.state == "pending" && (row.owner != "" || row.due.After(time.Now())) {
			t.Error("an unpublished event is not due at once")
		}
	}
}

// publisherWithContext answers for whole batches, and sees the context.
type publisherWithContext func(ctx context.Context, m []outbox.Envelope) []error

func (f publisherWithContext) Publish(ctx context.Context, m []outbox.Envelope) []error {
	return f(ctx, m)
}

// With the database away, a stop must not wait for the leases' end.
func TestStopWithoutADatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(30)
		r, stop := startRelay(t, hangingSettle{store}, publisherBatch(func(m []outbox.Envelope) []error {
			return make([]error, len(m))
		}), outbox.RelayConfig{BatchSize: 10, Lease: 60 * time.Second, PublishTimeout: 5 * time.Second, LeaseMargin: 2 * time.Second})
		time.Sleep(time.Second)
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > 9*time.Second {
			t.Errorf("the stop took %v, want at most PublishTimeout and twice LeaseMargin", took)
		}
		if r.Stats().Abandoned == 0 {
			t.Error("nothing was abandoned: the fault did not happen")
		}
	})
}

// hangingSettle hangs like a database that went away, until its context ends.
type hangingSettle struct{ *memStore }

func (hangingSettle) Settle(ctx context.Context, _ *outbox.Batch, _ []outbox.EventOutcome) (outbox.Settlement, error) {
	<-ctx.Done()
	return outbox.Settlement{}, ctx.Err()
}
