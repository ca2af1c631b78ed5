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

func TestRelayHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		away.Store(true)
		r, stop := startRelay(t, newMemStore(2), publisherBatch(func(m []outbox.Envelope) []error {
			if away.Load() {
				return answerAll(m, outbox.PublishUnavailable(errors.New("away")))
			}
			return make([]error, len(m))
		}), outbox.RelayConfig{OutageBackoffMax: 5 * time.Second})
		began := time.Now()
		time.Sleep(time.Minute)
		h := r.Health()
		if h.Runs != 1 || time.Since(h.Seen) > 10*time.Second || h.OutageSince.Sub(began).Abs() > time.Second {
			t.Errorf("in an outage of a minute: %+v, now %v", h, time.Now())
		}
		away.Store(false)
		time.Sleep(time.Minute)
		if h = r.Health(); !h.OutageSince.IsZero() || time.Since(h.Seen) > time.Second {
			t.Errorf("idle: %+v, now %v", h, time.Now())
		}
		stop()
		if h = r.Health(); h != (outbox.RelayHealth{}) {
			t.Errorf("stopped: %+v", h)
		}
	})
}

// A loop that hangs in the store is seen.
func TestRelayHealthOfALoopThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, release := newMemStore(0), make(chan struct{})
		store.claimErr = func() error { <-release; return nil }
		r, stop := startRelay(t, store, confirmAll, outbox.RelayConfig{})
		time.Sleep(10 * time.Minute)
		if h := r.Health(); h.Runs != 1 || time.Since(h.Seen) < 9*time.Minute {
			t.Errorf("%+v, now %v", h, time.Now())
		}
		close(release)
		stop()
	})
}

// A relay whose database can't be asked yet goes on asking, and is alive.
func TestRelayHealthWithoutADatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkedStore{memStore: newMemStore(0), check: func(context.Context, int) error { return errors.New("away") }}
		r, stop := startRelay(t, store, confirmAll, outbox.RelayConfig{})
		time.Sleep(10 * time.Minute)
		if h := r.Health(); h.Runs != 1 || time.Since(h.Seen) > 10*time.Second {
			t.Errorf("%+v, now %v", h, time.Now())
		}
		stop()
	})
}
