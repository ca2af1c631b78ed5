package outbox_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

var quiet = slog.New(slog.DiscardHandler)

// startRelay runs a relay in the test's bubble; stop ends it and waits.
func startRelay(t *testing.T, s outbox.Store, p outbox.Publisher, cfg outbox.RelayConfig) (r *outbox.Relay, stop func()) {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = quiet
	}
	r, err := outbox.NewRelay(s, p, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return r, stop
}

func TestRelayPublishesAndMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(1234)
		var published atomic.Int64
		r, stop := startRelay(t, store, publisherFunc(func(context.Context, outbox.Envelope) error {
			published.Add(1)
			return nil
		}), outbox.RelayConfig{BatchSize: 100})
		time.Sleep(time.Second)
		stop()
		if store.count("published") != 1234 || published.Load() != 1234 {
			t.Errorf("marked %d, published %d, want 1234 of both", store.count("published"), published.Load())
		}
		if s := r.Stats(); s.Published != 1234 || s.Confirmed != 1234 || s.Claimed != 1234 {
			t.Errorf("stats %+v", s)
		}
		if len(store.released) != 1 {
			t.Errorf("the owner signed off %d times, want once", len(store.released))
		}
	})
}

func TestFailedEventIsRetriedThenDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(0)
		bad, good := store.add("bad"), store.add("good")
		var attempts []time.Time
		_, stop := startRelay(t, store, publisherFunc(func(_ context.Context, e outbox.Envelope) error {
			if e.AggregateID == "bad" {
				attempts = append(attempts, time.Now())
				return outbox.PublishFailed(errors.New("no"))
			}
			return nil
		}), outbox.RelayConfig{MaxAttempts: 4, RetryBackoff: time.Second})
		time.Sleep(time.Minute)
		stop()
		if row := store.row(bad); row.state != "dead" || row.event.Attempts != 4 || !strings.Contains(row.lastError, "no") {
			t.Errorf("the failing event is %s after %d attempts (%s), want dead after 4", row.state, row.event.Attempts, row.lastError)
		}
		if len(attempts) != 4 {
			t.Fatalf("%d attempts, want 4", len(attempts))
		}
		for i, least := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
			if wait := attempts[i+1].Sub(attempts[i]); wait < least || wait > 2*least+time.Second {
				t.Errorf("wait %d was %v, want %v to %v", i+1, wait, least, 2*least)
			}
		}
		if store.row(good).state != "published" {
			t.Error("the good event was held up")
		}
	})
}

func TestRejectedEventIsDeadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(0)
		key := store.add("x")
		_, stop := startRelay(t, store, publisherFunc(func(context.Context, outbox.Envelope) error {
			return outbox.PublishRejected(errors.New("too large"))
		}), outbox.RelayConfig{})
		time.Sleep(time.Second)
		stop()
		if row := store.row(key); row.state != "dead" || row.event.Attempts != 1 {
			t.Errorf("%s after %d attempts, want dead after 1", row.state, row.event.Attempts)
		}
	})
}

func TestInvalidRowIsBuriedAndDoesNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(3)
		store.rows[1].event.Invalid = errors.New("not an event id")
		published := 0
		_, stop := startRelay(t, store, publisherFunc(func(context.Context, outbox.Envelope) error {
			published++
			return nil
		}), outbox.RelayConfig{})
		time.Sleep(time.Second)
		stop()
		if store.rows[1].state != "dead" || published != 2 || store.count("published") != 2 {
			t.Errorf("invalid row is %s, %d published", store.rows[1].state, published)
		}
	})
}

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

// publisherBatch answers for whole batches.
type publisherBatch func(m []outbox.Envelope) []error

func (f publisherBatch) Publish(_ context.Context, m []outbox.Envelope) []error { return f(m) }

func TestUnknownOutcomeIsLeftToItsLease(t *testing.T) {
	for name, answer := range map[string]error{
		"said to be unknown":  outbox.PublishUnknown(errors.New("no reply")),
		"of no kind":          errors.New("anything"),
		"a context's timeout": context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newMemStore(0)
				key := store.add("x")
				var tries []time.Time
				_, stop := startRelay(t, store, publisherFunc(func(context.Context, outbox.Envelope) error {
					tries = append(tries, time.Now())
					if len(tries) == 1 {
						return answer
					}
					return nil
				}), outbox.RelayConfig{Lease: 30 * time.Second})
				time.Sleep(29 * time.Second)
				if row := store.row(key); row.owner == "" || row.state != "pending" {
					t.Error("the row was given back while the broker may have the message")
				}
				time.Sleep(3 * time.Second)
				stop()
				if len(tries) != 2 || tries[1].Sub(tries[0]) < 30*time.Second {
					t.Errorf("tried at %v, want again after the lease", tries)
				}
				if row := store.row(key); row.state != "published" || row.event.Attempts != 0 {
					t.Errorf("%s, %d attempts counted", row.state, row.event.Attempts)
				}
			})
		})
	}
}

func TestWrongNumberOfResultsIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(3)
		r, stop := startRelay(t, store, publisherBatch(func([]outbox.Envelope) []error { return nil }), outbox.RelayConfig{})
		time.Sleep(time.Second)
		stop()
		if store.count("published") != 0 || r.Stats().Unknown != 3 {
			t.Errorf("%d marked, stats %+v", store.count("published"), r.Stats())
		}
	})
}

func TestDeadRelaysEventsAreClaimedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(5)
		// A relay that claims and then dies.
		if _, err := store.Claim(t.Context(), outbox.ClaimRequest{Owner: outbox.Owner{ID: outbox.NewEventID()}, Limit: 5, Lease: 30 * time.Second}); err != nil {
			t.Fatal(err)
		}
		_, stop := startRelay(t, store, publisherFunc(func(context.Context, outbox.Envelope) error { return nil }), outbox.RelayConfig{})
		time.Sleep(29 * time.Second)
		if n := store.count("published"); n != 0 {
			t.Errorf("%d events published under another's lease", n)
		}
		time.Sleep(2 * time.Second)
		stop()
		if n := store.count("published"); n != 5 {
			t.Errorf("%d published after the lease ended, want 5", n)
		}
	})
}

func TestLostLeaseIsCountedAndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(0)
		key := store.add("x")
		r, stop := startRelay(t, store, publisherFunc(func(context.Context, outbox.Envelope) error {
			// While this relay publishes, another one takes the row.
			store.mu.Lock()
			defer store.mu.Unlock()
			store.find(key).owner, store.find(key).token = "another", 99
			return nil
		}), outbox.RelayConfig{})
		time.Sleep(time.Second)
		stop()
		if s := r.Stats(); s.Lost != 1 || s.Published != 0 {
			t.Errorf("stats %+v, want one lost lease", s)
		}
		if row := store.row(key); row.state != "pending" || row.owner != "another" {
			t.Errorf("the row is %s of %s", row.state, row.owner)
		}
	})
}

func TestPublishIsNotStartedWithTooLittleLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(20)
		published := map[string]int{}
		_, stop := startRelay(t, store, publisherFunc(func(_ context.Context, e outbox.Envelope) error {
			if left := time.Until(store.row(e.ID.String()).due); left < 12*time.Second {
				t.Errorf("a publish began with %v of its lease left", left)
			}
			published[e.ID.String()]++
			time.Sleep(9 * time.Second) // the next batch is claimed already, and waits as long
			return nil
		}), outbox.RelayConfig{BatchSize: 1, Lease: 20 * time.Second, PublishTimeout: 10 * time.Second, LeaseMargin: 2 * time.Second})
		time.Sleep(5 * time.Minute)
		stop()
		if n := store.count("published"); n != 20 {
			t.Errorf("%d published, want 20", n)
		}
		for id, n := range published {
			if n != 1 {
				t.Errorf("event %s was published %d times", id, n)
			}
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

func TestRelayConfigIsChecked(t *testing.T) {
	p := publisherFunc(func(context.Context, outbox.Envelope) error { return nil })
	for name, cfg := range map[string]outbox.RelayConfig{
		"lease shorter than publish and margin": {Lease: 10 * time.Second, PublishTimeout: 10 * time.Second, LeaseMargin: time.Second},
		"negative":                              {PollInterval: -1},
		"huge batch":                            {BatchSize: 100_000},
	} {
		if _, err := outbox.NewRelay(newMemStore(0), p, &cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := outbox.NewRelay(nil, p, nil); err == nil {
		t.Error("no store: no error")
	}
	if _, err := outbox.NewRelay(newMemStore(0), p, nil); err != nil {
		t.Errorf("defaults: %v", err)
	}
}
