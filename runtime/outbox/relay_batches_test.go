package outbox_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func TestBatchesArePublishedInParallel(t *testing.T) {
	for _, most := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			store := newMemStore(100)
			underWay, answer := make(chan struct{}, 100), make(chan struct{})
			_, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
				underWay <- struct{}{}
				<-answer
				return make([]error, len(m))
			}), outbox.RelayConfig{BatchSize: 10, MaxBatches: most})
			synctest.Wait()
			if len(underWay) != most || len(store.claims) != most {
				t.Errorf("%d calls of the publisher are under way after %d claims, want %d", len(underWay), len(store.claims), most)
			}
			answer <- struct{}{} // one batch ends and makes room
			synctest.Wait()
			if len(underWay) != most+1 {
				t.Errorf("%d calls after the first was answered, want %d", len(underWay), most+1)
			}
			close(answer)
			synctest.Wait()
			stop()
			if n := store.count("published"); n != 100 || store.maxInFlight != most {
				t.Errorf("%d published, at most %d in flight, want 100 and %d", n, store.maxInFlight, most)
			}
		})
	}
}

// A settlement that waits for the database doesn't hold up the other batches.
func TestSettlesRunInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(40)
		goOn := make(chan struct{})
		store.settleErr = func(n int) error {
			if n == 1 {
				<-goOn
			}
			return nil
		}
		_, stop := startRelay(t, store, confirmAll, outbox.RelayConfig{BatchSize: 10, MaxBatches: 2})
		synctest.Wait()
		if n := store.count("published"); n != 30 {
			t.Errorf("%d marked beside a settlement that hangs, want 30", n)
		}
		close(goOn)
		stop()
	})
}

func TestEveryBatchIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(10)
		_, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			return answerAll(m, outbox.PublishUnknown(errors.New("no reply")))
		}), outbox.RelayConfig{})
		time.Sleep(10 * time.Millisecond)
		stop()
		if len(store.inFlight) != 0 || len(store.settled) != 1 {
			t.Errorf("the store was not told of the batch's end")
		}
	})
}

// holdingBack publishes one after the other and holds back the later messages of
// an aggregate, as a publisher must.
func holdingBack(answer func(e outbox.Envelope) error) publisherBatch {
	return func(m []outbox.Envelope) []error {
		open := map[string]bool{}
		results := make([]error, len(m))
		for i, e := range m {
			if open[e.AggregateID] {
				results[i] = outbox.PublishHeldBack(errors.New("one before it"))
				continue
			}
			results[i] = answer(e)
			if err := results[i]; err != nil && outbox.FailureKindOf(err) != outbox.FailureRejected {
				open[e.AggregateID] = true
			}
		}
		return results
	}
}

// inOrder counts messages and checks that the first confirms of each aggregate
// come in the order of its versions.
type inOrder struct {
	t    *testing.T
	mu   sync.Mutex
	last map[string]int64
	seen map[string]bool
}

func newInOrder(t *testing.T) *inOrder {
	return &inOrder{t: t, last: map[string]int64{}, seen: map[string]bool{}}
}

func (o *inOrder) confirmed(e outbox.Envelope) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen[e.ID.String()] {
		return
	}
	o.seen[e.ID.String()] = true
	if last, ok := o.last[e.AggregateID]; ok && e.AggregateVersion < last {
		o.t.Errorf("aggregate %s: version %d came after %d", e.AggregateID, e.AggregateVersion, last)
	}
	o.last[e.AggregateID] = e.AggregateVersion
}

func TestOrderIsKeptWithBatchesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(0)
		store.ordered = true
		for i := range 2000 {
			store.add(string(rune('a' + i%26)))
		}
		order := newInOrder(t)
		r, stop := startRelay(t, store, holdingBack(func(e outbox.Envelope) error {
			time.Sleep(time.Millisecond)
			switch rand.N(40) {
			case 0:
				return outbox.PublishFailed(errors.New("no"))
			case 1:
				return outbox.PublishUnavailable(errors.New("away"))
			case 2:
				return outbox.PublishUnknown(errors.New("no reply"))
			}
			order.confirmed(e)
			return nil
		}), outbox.RelayConfig{BatchSize: 50, RetryBackoff: time.Millisecond, RetryBackoffMax: 50 * time.Millisecond, OutageBackoffMax: 200 * time.Millisecond})
		for range 60 {
			time.Sleep(time.Minute)
			if store.count("published") == 2000 {
				break
			}
		}
		stop()
		if s := r.Stats(); store.count("published") != 2000 || s.OutOfOrder != 0 {
			t.Errorf("%d published, stats %+v", store.count("published"), s)
		}
		if store.maxInFlight < 2 {
			t.Error("never two batches in flight")
		}
	})
}

func TestOutOfOrderConfirmsCountAndAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		answer error // for the first message of aggregate a
		late   int64 // confirms out of order
	}{
		"failed":      {outbox.PublishFailed(errors.New("no")), 2},
		"unavailable": {outbox.PublishUnavailable(errors.New("no")), 2},
		"unknown":     {outbox.PublishUnknown(errors.New("no")), 2},
		"held back":   {outbox.PublishHeldBack(errors.New("no")), 2},
		"rejected":    {outbox.PublishRejected(errors.New("no")), 0},
		"confirmed":   {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newMemStore(0)
				store.ordered = true
				first := store.add("a")
				for range 2 {
					store.add("a")
				}
				store.add("a") // of another type: another aggregate
				store.rows[3].event.Envelope.AggregateType = "other"
				book, log := newLogBook()
				r, stop := startRelay(t, store, publisherFunc(func(_ context.Context, e outbox.Envelope) error {
					if e.ID.String() == first {
						return c.answer
					}
					return nil
				}), outbox.RelayConfig{Logger: log})
				time.Sleep(10 * time.Millisecond)
				stop()
				if n := r.Stats().OutOfOrder; n != c.late || r.Stats().Published < 3 {
					t.Errorf("%d out of order, want %d; stats %+v", n, c.late, r.Stats())
				}
				if told := book.count("before earlier ones"); told != min(int(c.late), 1) {
					t.Errorf("told %d times:\n%s", told, book)
				}
			})
		})
	}
}
