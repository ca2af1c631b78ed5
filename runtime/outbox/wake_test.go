package outbox_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func received(wake <-chan struct{}) bool {
	select {
	case <-wake:
		return true
	default:
		return false
	}
}

func TestWakes(t *testing.T) {
	_, db := newFakeDB()
	first, stopFirst := db.Wakes()
	second, stopSecond := db.Wakes()
	db.Wake()
	db.Wake() // never blocks, and is one with the other
	if !received(first) || !received(second) {
		t.Error("a subscriber was not woken")
	}
	if received(first) || received(second) {
		t.Error("two commits woke twice")
	}
	stopFirst()
	db.Wake()
	if received(first) || !received(second) {
		t.Error("stop is not the subscriber's own")
	}
	stopSecond()
	stopSecond() // does no harm
	db.Wake()
	if received(second) {
		t.Error("woken after stop")
	}
}

// ownTx is a service's own type around a transaction.
type ownTx struct {
	*outbox.Tx
	_ string // what else it holds
}

func TestInTxWakes(t *testing.T) {
	write := func(t *testing.T) func(tx outbox.Transaction) error {
		return func(tx outbox.Transaction) error {
			return outbox.Write(t.Context(), tx, record(goodPayload{}), insertRow)
		}
	}
	cases := map[string]struct {
		commit  error
		run     func(t *testing.T, tx *outbox.Tx) error
		outcome outbox.Outcome
		wakes   bool
	}{
		"an event is committed": {
			run:     func(t *testing.T, tx *outbox.Tx) error { return write(t)(tx) },
			outcome: outbox.Committed, wakes: true,
		},
		"an event is written in a type of the service's": {
			run:     func(t *testing.T, tx *outbox.Tx) error { return write(t)(ownTx{Tx: tx}) },
			outcome: outbox.Committed, wakes: true,
		},
		"it is not known whether an event was committed": {
			commit:  errConnection,
			run:     func(t *testing.T, tx *outbox.Tx) error { return write(t)(tx) },
			outcome: outbox.Unknown, wakes: true,
		},
		"the server refused the commit": {
			commit:  errDeadlock,
			run:     func(t *testing.T, tx *outbox.Tx) error { return write(t)(tx) },
			outcome: outbox.RolledBack,
		},
		"an event is rolled back": {
			run: func(t *testing.T, tx *outbox.Tx) error {
				if err := write(t)(tx); err != nil {
					return err
				}
				return errors.New("no stock")
			},
			outcome: outbox.RolledBack,
		},
		"the transaction is poisoned after the event": {
			run: func(t *testing.T, tx *outbox.Tx) error {
				err := write(t)(tx)
				tx.Poison(errors.New("no"))
				return err
			},
			outcome: outbox.RolledBack,
		},
		"no event is written": {
			run: func(t *testing.T, tx *outbox.Tx) error {
				_, err := tx.ExecContext(t.Context(), "UPDATE stock")
				return err
			},
			outcome: outbox.Committed,
		},
		"nothing is written": {
			run:     func(*testing.T, *outbox.Tx) error { return nil },
			outcome: outbox.Committed,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			fake, db := newFakeDB()
			fake.answer["COMMIT"] = c.commit
			wake, stop := db.Wakes()
			defer stop()
			outcome, _ := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
				err := c.run(t, tx)
				if received(wake) {
					t.Error("woken before the commit")
				}
				return err
			})
			if woken := received(wake); outcome != c.outcome || woken != c.wakes {
				t.Errorf("%v, woken: %v; want %v and %v", outcome, woken, c.outcome, c.wakes)
			}
		})
	}
}

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
