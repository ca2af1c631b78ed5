package outbox_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
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
		// Pauses of 2.5 to 5 s: about 480 probes in half an hour.
		if r.Stats().Pauses < 200 || r.Stats().Pauses > 900 {
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
					results[1+i] = outbox.PublishHeldBack(errors.New("one before it failed"))
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

// An event that the broker has no place for must not be every probe.
func TestUnavailableEventsDoNotStarveOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(0)
		for range 20 {
			store.add("misrouted")
		}
		_, stop := startRelay(t, store, publisherFunc(func(_ context.Context, e outbox.Envelope) error {
			if e.AggregateID == "misrouted" {
				return outbox.PublishUnavailable(errors.New("no stream takes the subject"))
			}
			return nil
		}), outbox.RelayConfig{})
		time.Sleep(time.Second)
		healthy := store.add("healthy")
		time.Sleep(20 * time.Second) // one pause at its longest, and some
		stop()
		if row := store.row(healthy); row.state != "published" {
			t.Error("a healthy event waits behind those that the broker has no place for")
		}
		if n := store.count("dead"); n != 0 {
			t.Errorf("%d events died for want of a place", n)
		}
	})
}

func TestPlainErrorsAreAnOutageToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		calls := 0
		store := newMemStore(20_000)
		_, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			calls++
			return slices.Repeat([]error{errors.New("connection refused")}, len(m))
		}), outbox.RelayConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		time.Sleep(time.Minute)
		stop()
		if calls > 40 {
			t.Errorf("%d calls of a publisher that fails, in a minute", calls)
		}
		if n := strings.Count(log.String(), "\n"); n > 60 {
			t.Errorf("%d lines were logged in a minute", n)
		}
	})
}

func TestPanickingPublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		store := newMemStore(10)
		poison := store.add("poison")
		_, stop := startRelay(t, store, publisherFunc(func(_ context.Context, e outbox.Envelope) error {
			if e.AggregateID == "poison" {
				panic("secret")
			}
			return nil
		}), outbox.RelayConfig{MaxAttempts: 3, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		time.Sleep(time.Minute)
		stop()
		if row := store.row(poison); row.state != "dead" || row.event.Attempts != 3 {
			t.Errorf("the event that makes the publisher panic is %s after %d attempts", row.state, row.event.Attempts)
		}
		if n := store.count("published"); n != 10 {
			t.Errorf("%d others are published, want 10", n)
		}
		if strings.Contains(log.String(), "secret") {
			t.Error("the panic's value was logged")
		}
	})
}

func TestPublishErrorsOfNothing(t *testing.T) {
	var typed *outbox.PublishError
	for _, err := range []error{outbox.PublishFailed(nil), outbox.PublishUnknown(nil)} {
		if err == nil || err.Error() == "" {
			t.Errorf("got %v", err)
		}
	}
	if k := outbox.FailureKindOf(error(typed)); k != outbox.FailureUnknown {
		t.Errorf("got %v", k)
	}
	if error(typed).Error() == "" || errors.Unwrap(error(typed)) != nil {
		t.Error("a nil *PublishError in an error can't be told")
	}
}
