package outbox_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// wakingStore is a store in the writers' process.
type wakingStore struct {
	*memStore
	db *outbox.DB
}

func newWakingStore() wakingStore {
	_, db := newFakeDB()
	return wakingStore{newMemStore(0), db}
}

func (s wakingStore) Wakes() (<-chan struct{}, func()) { return s.db.Wakes() }

func TestWakeIsFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newWakingStore()
		defer store.db.Close()
		_, stop := startRelay(t, store, confirmAll, outbox.RelayConfig{PollInterval: time.Hour})
		time.Sleep(3 * time.Hour) // the polls are at their longest
		store.add("x")
		time.Sleep(time.Minute)
		if n := store.count("published"); n != 0 {
			t.Fatal("published without a wake: the test tests nothing")
		}
		store.db.Wake()
		synctest.Wait()
		if n := store.count("published"); n != 1 {
			t.Error("not published at once after a wake")
		}
		stop()
	})
}

func TestPollsAreShortestAfterAWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newWakingStore()
		defer store.db.Close()
		_, stop := startRelay(t, store, confirmAll, outbox.RelayConfig{PollInterval: 10 * time.Second})
		time.Sleep(time.Minute)
		claims, _ := store.counts()
		store.db.Wake() // of nothing that is to be seen yet
		time.Sleep(time.Second)
		stop()
		at := store.claimedAt[claims:]
		want := []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond}
		if len(at) != len(want) {
			t.Fatalf("%d claims in the second after the wake, want %d", len(at), len(want))
		}
		for i := range want {
			if got := at[i].Sub(at[0]); got != want[i] {
				t.Errorf("claim %d came after %v, want %v", i, got, want[i])
			}
		}
	})
}

// Without wakes an event waits for the current poll, which is a hundredth of
// PollInterval after work and PollInterval in the end.
func TestPollsWithoutWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(0)
		_, stop := startRelay(t, store, confirmAll, outbox.RelayConfig{PollInterval: 10 * time.Second})
		time.Sleep(time.Minute)
		for range 5 {
			before := store.count("published")
			store.add("x")
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if store.count("published") != before+1 {
				t.Error("not published after PollInterval")
			}
		}
		time.Sleep(time.Minute)
		stop()
		var longest time.Duration
		for i := range store.claimedAt[1:] {
			longest = max(longest, store.claimedAt[i+1].Sub(store.claimedAt[i]))
		}
		if longest != 10*time.Second {
			t.Errorf("the longest poll was %v, want 10 s", longest)
		}
	})
}

// A wake that comes while a claim is under way, which may have looked before the
// commit, is followed by another claim at once.
func TestWakeDuringAClaimIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newWakingStore()
		defer store.db.Close()
		looked := lateCommit{store, make(chan struct{}), make(chan struct{})}
		_, stop := startRelay(t, looked, confirmAll, outbox.RelayConfig{PollInterval: time.Hour})
		<-looked.found
		store.add("x")
		store.db.Wake()
		close(looked.goOn)
		synctest.Wait()
		if n := store.count("published"); n != 1 {
			t.Error("the wake was lost")
		}
		stop()
	})
}

// lateCommit finds nothing at the first claim and returns it late.
type lateCommit struct {
	wakingStore
	found, goOn chan struct{}
}

func (s lateCommit) Claim(ctx context.Context, c outbox.ClaimRequest) (*outbox.Batch, error) {
	b, err := s.memStore.Claim(ctx, c)
	if claims, _ := s.counts(); claims == 1 {
		close(s.found)
		<-s.goOn
	}
	return b, err
}

// The store is no longer listened to after the stop.
func TestWakesEndWithTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &countingWaker{wakingStore: newWakingStore()}
		defer store.db.Close()
		r, stop := startRelay(t, store, confirmAll, outbox.RelayConfig{})
		synctest.Wait()
		if store.subscribed != 1 {
			t.Errorf("%d subscriptions of one run", store.subscribed)
		}
		stop()
		_ = r
		if store.subscribed != 0 {
			t.Error("the run did not unsubscribe")
		}
	})
}

type countingWaker struct {
	wakingStore
	subscribed int
}

func (s *countingWaker) Wakes() (<-chan struct{}, func()) {
	wake, stop := s.wakingStore.Wakes()
	s.subscribed++
	return wake, func() { s.subscribed--; stop() }
}

// Events that waited for a batch of their aggregate in flight are claimed when it
// has been settled, not at the next poll.
func TestEndOfABatchIsFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(0)
		store.ordered = true
		for range 5 {
			store.add("x")
		}
		begin := time.Now()
		_, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			time.Sleep(time.Second)
			return make([]error, len(m))
		}), outbox.RelayConfig{BatchSize: 1, PollInterval: time.Hour})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := store.count("published"); n != 5 {
			t.Errorf("%d published after %v, want 5", n, time.Since(begin))
		}
		stop()
	})
}

// Under a wake at every commit an outage of the database is not hammered at.
func TestWakesDoNotShortenTheWaitForTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newWakingStore()
		defer store.db.Close()
		store.claimErr = func() error { return errors.New("connection refused") }
		_, stop := startRelay(t, store, confirmAll, outbox.RelayConfig{})
		for range 600 {
			store.db.Wake()
			time.Sleep(100 * time.Millisecond)
		}
		stop()
		if claims, _ := store.counts(); claims > 40 {
			t.Errorf("%d claims in a minute without a database", claims)
		}
	})
}
