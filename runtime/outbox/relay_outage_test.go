package outbox_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func TestOutageCountsNoAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(1000)
		start := time.Now()
		calls, messages := 0, 0
		r, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			calls++
			results := make([]error, len(m))
			if time.Since(start) < 30*time.Minute {
				time.Sleep(50 * time.Millisecond) // meanwhile the next batch is claimed
				messages += len(m)
				for i := range results {
					results[i] = outbox.PublishUnavailable(errors.New("connection refused"))
				}
			}
			return results
		}), outbox.RelayConfig{BatchSize: 400})
		time.Sleep(31 * time.Minute)
		stop()
		if n := store.count("published"); n != 1000 {
			t.Errorf("%d published after the outage, want 1000", n)
		}
		for _, row := range store.rows {
			if row.event.Attempts != 0 {
				t.Fatalf("an attempt was counted during the outage")
			}
		}
		// Pauses of 7.5 to 15 s: about 160 probes in half an hour, and not many messages each.
		if r.Stats().Pauses < 100 || r.Stats().Pauses > 400 {
			t.Errorf("%d pauses in 30 minutes", r.Stats().Pauses)
		}
		if last := store.claims[len(store.claims)-1]; last.Limit != 400 {
			t.Errorf("after the outage a claim asks for %d events, want 400", last.Limit)
		}
		// The first batch found it out; the one claimed ahead is given back, and a probe is one message.
		if messages > 400+int(r.Stats().Pauses) {
			t.Errorf("%d messages tried in %d calls during the outage", messages, calls)
		}
	})
}

func TestOneAnswerShowsThatTheBrokerIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(10)
		r, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			results := make([]error, len(m))
			if len(m) == 10 { // the first call: one fails, those behind it are held back
				results[0] = outbox.PublishFailed(errors.New("no"))
				for i := range results[1:] {
					results[1+i] = outbox.PublishUnavailable(errors.New("held back"))
				}
			}
			return results
		}), outbox.RelayConfig{RetryBackoff: time.Second})
		time.Sleep(100 * time.Millisecond)
		if n := store.count("published"); n != 9 {
			t.Errorf("%d of those behind a failed message are published, want 9", n)
		}
		time.Sleep(2 * time.Second)
		stop()
		if r.Stats().Pauses != 0 || store.count("published") != 10 {
			t.Errorf("%d published, stats %+v", store.count("published"), r.Stats())
		}
	})
}

func TestSettleIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(10)
		store.settleErr = func() error {
			if store.settles < 5 {
				return errors.New("the database is away")
			}
			return nil
		}
		calls := 0
		_, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			calls++
			return make([]error, len(m))
		}), outbox.RelayConfig{})
		time.Sleep(20 * time.Second)
		stop()
		if store.count("published") != 10 || calls != 1 {
			t.Errorf("%d marked after %d publishes, want 10 after 1", store.count("published"), calls)
		}
	})
}

func TestDatabaseOutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(1)
		start := time.Now()
		store.claimErr = func() error {
			if time.Since(start) < 10*time.Minute {
				return errors.New("connection refused")
			}
			return nil
		}
		var log strings.Builder
		_, stop := startRelay(t, store, publisherFunc(func(context.Context, outbox.Envelope) error { return nil }),
			outbox.RelayConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		time.Sleep(11 * time.Minute)
		stop()
		if store.count("published") != 1 {
			t.Error("the relay did not go on after the outage")
		}
		if n := strings.Count(log.String(), "claim failed"); n != 1 {
			t.Errorf("the outage was logged %d times, want once:\n%s", n, log.String())
		}
	})
}
