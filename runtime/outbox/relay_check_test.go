package outbox_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// checkedStore answers whether it is fit.
type checkedStore struct {
	*memStore
	check func(ctx context.Context, n int) error // n: which question it is, from 1
	asked int
}

func (s *checkedStore) Check(ctx context.Context) error {
	s.asked++
	return s.check(ctx, s.asked)
}

var errUnfit = &outbox.UnfitError{Reason: "binlog_format is STATEMENT; set it to ROW"}

func TestUnfitDatabaseIsRefused(t *testing.T) {
	store := &checkedStore{memStore: newMemStore(0), check: func(context.Context, int) error { return errUnfit }}
	book, log := newLogBook()
	_, err := outbox.NewRelay(store, confirmAll, &outbox.RelayConfig{Logger: log})
	var unfit *outbox.UnfitError
	if !errors.As(err, &unfit) || unfit.Reason != errUnfit.Reason {
		t.Errorf("got %v", err)
	}
	if n := book.count(""); n != 0 {
		t.Errorf("logged and returned:\n%s", book)
	}
}

func TestFitDatabaseIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkedStore{memStore: newMemStore(3), check: func(context.Context, int) error { return nil }}
		_, stop := startRelay(t, store, confirmAll, outbox.RelayConfig{})
		time.Sleep(time.Minute)
		stop()
		if store.asked != 1 || store.count("published") != 3 {
			t.Errorf("asked %d times, %d published", store.asked, store.count("published"))
		}
	})
}

func TestQuestionIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkedStore{memStore: newMemStore(0), check: func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		begin := time.Now()
		if _, err := outbox.NewRelay(store, confirmAll, &outbox.RelayConfig{Logger: quiet}); err != nil {
			t.Errorf("got %v, want it to be asked again by Run", err)
		}
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("took %v, want 5 s", took)
		}
	})
}

func TestDatabaseThatIsAwayIsAskedAgain(t *testing.T) {
	for name, verdict := range map[string]error{"fit": nil, "unfit": errUnfit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				store := &checkedStore{memStore: newMemStore(3), check: func(context.Context, int) error {
					if time.Since(start) < 5*time.Minute {
						return errors.New("connection refused")
					}
					return verdict
				}}
				book, log := newLogBook()
				failed := 0
				r, err := outbox.NewRelay(store, confirmAll, &outbox.RelayConfig{Logger: log, Observer: &outbox.Observer{
					StoreFailed: func(f outbox.StoreFailed) {
						if f.Call == "check" {
							failed++
						}
					},
				}})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
				defer cancel()
				err = r.Run(ctx)
				if unfit := errors.As(err, new(*outbox.UnfitError)); unfit != (verdict != nil) || unfit != (err != nil) {
					t.Errorf("Run returned %v", err)
				}
				if claims, _ := store.counts(); (claims > 0) != (verdict == nil) {
					t.Errorf("%d claims", claims)
				}
				if store.claimedAt != nil && store.claimedAt[0].Sub(start) < 5*time.Minute {
					t.Error("claimed before the verdict")
				}
				if store.asked < 20 || store.asked > 150 || failed != store.asked-1 {
					t.Errorf("asked %d times in 5 minutes, %d told to the observer", store.asked, failed)
				}
				if n := book.count("could not be asked"); n != 1 {
					t.Errorf("told %d times:\n%s", n, book)
				}
				over := 0
				if verdict == nil {
					over = 1
				}
				if n := book.count("the database is fit"); n != over {
					t.Errorf("its end was told %d times, want %d:\n%s", n, over, book)
				}
			})
		})
	}
}

func TestStopWhileTheDatabaseCannotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkedStore{memStore: newMemStore(3), check: func(ctx context.Context, n int) error {
			if n > 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return errors.New("connection refused")
		}}
		_, stop := startRelay(t, store, confirmAll, outbox.RelayConfig{})
		time.Sleep(time.Second)
		begin := time.Now()
		stop()
		if took := time.Since(begin); took != 0 || store.asked != 2 {
			t.Errorf("the stop took %v; asked %d times", took, store.asked)
		}
		if claims, _ := store.counts(); claims != 0 {
			t.Error("claimed without a verdict")
		}
	})
}
