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

// Half an hour without a broker: no attempt is used, nothing dies, one event at a
// time asks whether it is back, and all is delivered after.
func TestHalfAnHourWithoutABroker(t *testing.T) {
	for name, answer := range map[string]error{
		"unavailable": outbox.PublishUnavailable(errors.New("connection refused")),
		"unknown":     outbox.PublishUnknown(errors.New("no reply")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const backAfter, batch, batches = 30 * time.Minute, 400, 4
				store := newMemStore(2000)
				start := time.Now()
				var calls, messages, underWay atomic.Int64
				r, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
					if time.Since(start) >= backAfter {
						return make([]error, len(m))
					}
					if n := underWay.Add(1); time.Since(start) > time.Second && (n > 1 || len(m) > 1) {
						t.Errorf("%d calls under way, of %d messages, during the outage", n, len(m))
					}
					defer underWay.Add(-1)
					calls.Add(1)
					messages.Add(int64(len(m)))
					time.Sleep(50 * time.Millisecond)
					return answerAll(m, answer)
				}), outbox.RelayConfig{BatchSize: batch, MaxBatches: batches})
				time.Sleep(backAfter + time.Minute)
				stop()
				if n := store.count("published"); n != 2000 {
					t.Errorf("%d published after the outage, want 2000", n)
				}
				if n := store.attempts(); n != 0 || store.count("dead") != 0 {
					t.Errorf("%d attempts were counted during the outage, %d events died", n, store.count("dead"))
				}
				// The first batches found it out. Then pauses of 2.5 to 5 s: about 480 probes.
				probes := r.Stats().Pauses - 1
				if calls.Load() != batches+probes || messages.Load() != batches*batch+probes {
					t.Errorf("%d messages in %d calls, want those of %d batches and %d probes",
						messages.Load(), calls.Load(), batches, probes)
				}
				if probes < 360 || probes > 740 {
					t.Errorf("%d probes in 30 minutes", probes)
				}
				t.Logf("%d probes in 30 minutes", probes)
				if last := store.claims[len(store.claims)-1]; last.Limit != batch {
					t.Errorf("after the outage a claim asks for %d events, want %d", last.Limit, batch)
				}
			})
		})
	}
}

// Batches that find the broker away together make one pause.
func TestOneOutageOnePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := newMemStore(40), atomic.Int64{}
		r, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			n := calls.Add(1)
			time.Sleep(time.Duration(n) * 10 * time.Millisecond)
			return answerAll(m, outbox.PublishUnavailable(errors.New("connection refused")))
		}), outbox.RelayConfig{BatchSize: 10, OutageBackoff: time.Second})
		time.Sleep(400 * time.Millisecond) // less than the first pause
		if s := r.Stats(); s.Pauses != 1 || calls.Load() != 4 || s.Released != 40 {
			t.Errorf("%d calls, stats %+v, want one pause after four calls", calls.Load(), s)
		}
		stop()
	})
}

// An answer to a call that began before the outage tells nothing of the broker now.
func TestLateAnswerDoesNotEndAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := newMemStore(40), atomic.Int64{}
		probed := false
		r, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			switch n := calls.Add(1); {
			case n == 1:
				time.Sleep(time.Millisecond) // the others begin
				return answerAll(m, outbox.PublishUnavailable(errors.New("connection refused")))
			case n <= 4: // confirmed while the pause is on
				time.Sleep(10 * time.Millisecond)
			case !probed:
				probed = true
				if len(m) != 1 {
					t.Errorf("%d messages went after a pause, want a probe of one", len(m))
				}
			}
			return make([]error, len(m))
		}), outbox.RelayConfig{BatchSize: 10, OutageBackoff: time.Second, OutageBackoffMax: time.Second})
		time.Sleep(400 * time.Millisecond)
		if n := calls.Load(); n > 4 {
			t.Errorf("%d calls during the pause", n)
		}
		time.Sleep(5 * time.Second)
		stop()
		if !probed || store.count("published") != 40 || r.Stats().Pauses != 1 {
			t.Errorf("probed: %v, %d published, stats %+v", probed, store.count("published"), r.Stats())
		}
	})
}

// A batch that was claimed while another found the broker away is given back.
func TestBatchClaimedBeforeTheOutageIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(20)
		claims := 0
		store.claimErr = func() error {
			if claims++; claims == 2 {
				time.Sleep(100 * time.Millisecond) // meanwhile the first batch is answered
			}
			return nil
		}
		calls := 0
		r, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			if calls++; calls > 1 && len(m) > 1 {
				t.Errorf("%d messages were sent in the outage", len(m))
			}
			time.Sleep(50 * time.Millisecond)
			return answerAll(m, outbox.PublishUnavailable(errors.New("connection refused")))
		}), outbox.RelayConfig{BatchSize: 10, OutageBackoff: time.Hour, OutageBackoffMax: time.Hour})
		time.Sleep(time.Second)
		if s := r.Stats(); calls != 1 || s.Claimed != 20 || s.Released != 20 {
			t.Errorf("%d calls, stats %+v, want both batches given back after one call", calls, s)
		}
		stop()
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
		book, log := newLogBook()
		var calls atomic.Int64
		store := newMemStore(5000)
		_, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			calls.Add(1)
			return answerAll(m, errors.New("connection refused"))
		}), outbox.RelayConfig{Logger: log})
		time.Sleep(time.Minute)
		stop()
		if calls.Load() > 40 {
			t.Errorf("%d calls of a publisher that fails, in a minute", calls.Load())
		}
		if n := book.count("WARN"); n > 2 {
			t.Errorf("%d warnings in a minute:\n%s", n, book)
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

// When the probe is confirmed, the others go on while it is still being settled.
func TestEndOfAnOutageIsFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(30)
		goOn := make(chan struct{})
		var calls atomic.Int64
		_, stop := startRelay(t, slowProbe{store, goOn}, publisherBatch(func(m []outbox.Envelope) []error {
			if calls.Add(1) == 1 {
				return answerAll(m, outbox.PublishUnavailable(errors.New("connection refused")))
			}
			return make([]error, len(m))
		}), outbox.RelayConfig{BatchSize: 30, OutageBackoff: 2 * time.Second, OutageBackoffMax: 2 * time.Second})
		time.Sleep(5 * time.Second) // less than a call of Settle may take
		if n := store.count("published"); n != 29 {
			t.Errorf("%d published beside the probe that is being settled, want 29", n)
		}
		close(goOn)
		stop()
	})
}

// slowProbe settles a batch of one event late.
type slowProbe struct {
	*memStore
	goOn chan struct{}
}

func (s slowProbe) Settle(ctx context.Context, b *outbox.Batch, o []outbox.EventOutcome) (outbox.Settlement, error) {
	if len(b.Events) == 1 {
		<-s.goOn
	}
	return s.memStore.Settle(ctx, b, o)
}
