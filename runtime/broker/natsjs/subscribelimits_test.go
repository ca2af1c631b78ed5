package natsjs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// A message that is no event is parked under a reference that a stream which is made
// anew can't repeat, and nothing of it is logged.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var log lockedBuffer
	cfg := subscribeConfig()
	cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug - 8}))
	h := &parker{fail: 1, parked: make(chan outbox.Unreadable, 10)}
	r.put(&nats.Msg{
		Subject: "orders." + brokersuite.TypeA, Data: []byte("canary-body"),
		Header: nats.Header{"Tenant": {"canary-one", "two"}, "ce-id": {"canary-id"}, "ce-specversion": {"1.0"}},
	})
	r.subscribe(h, cfg)
	first, second := <-h.parked, <-h.parked
	if first.Reference != second.Reference || !strings.HasPrefix(first.Reference, "ORDERS/1/20") {
		t.Errorf("references %q and %q", first.Reference, second.Reference)
	}
	if got := first.Headers["Tenant"]; got != "canary-one,two" || string(first.Body) != "canary-body" {
		t.Errorf("headers %v, body %q", first.Headers, first.Body)
	}
	waitUntil(t, "it is acknowledged", func() bool { return r.unacked("projector") == 0 })
	if text := log.String(); strings.Contains(text, "canary") || !strings.Contains(text, "sequence=1") {
		t.Errorf("the log shows data, or no place:\n%s", text)
	}
}

// parker fails to park at first.
type parker struct {
	funcHandler
	fail   int
	parked chan outbox.Unreadable
}

func (p *parker) Park(_ context.Context, m outbox.Unreadable) error {
	p.parked <- m
	if p.fail--; p.fail >= 0 {
		return errors.New("not yet")
	}
	return nil
}

// A subscription holds no more than Prefetch messages; the others are for other processes.
func TestPrefetch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := subscribeConfig()
	cfg.Prefetch, cfg.AckWait = 4, time.Minute
	entered, release := make(chan struct{}, 100), make(chan struct{})
	r.subscribe(funcHandler(func(context.Context, outbox.Envelope) error {
		entered <- struct{}{}
		<-release
		return nil
	}), cfg)
	var sent []outbox.Envelope
	for i := range 20 {
		sent = append(sent, brokersuite.Event(fmt.Sprint(i), 1))
	}
	r.publish(sent...)
	<-entered
	pending := func() int {
		c, err := r.js.Consumer(t.Context(), stream, "projector")
		if err != nil {
			t.Fatal(err)
		}
		return c.CachedInfo().NumAckPending
	}
	waitUntil(t, "it has asked for its share", func() bool { return pending() >= 4 })
	var others atomic.Int64
	stop := r.subscribe(funcHandler(func(context.Context, outbox.Envelope) error { others.Add(1); return nil }), cfg)
	waitUntil(t, "another process gets the rest", func() bool { return others.Load() == 16 })
	waitUntil(t, "its acknowledgements are there", func() bool { return pending() == 4 })
	stop()
	close(release)
	waitUntil(t, "all are acknowledged", func() bool { return r.unacked("projector") == 0 })
}

// With MaxAckPending 1 the stream's order holds: a message that fails holds up all.
func TestStrictOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := subscribeConfig()
	cfg.MaxAckPending = 1
	var (
		mu     sync.Mutex
		failed bool
		got    []string
	)
	for range 2 { // processes
		r.subscribe(funcHandler(func(_ context.Context, e outbox.Envelope) error {
			mu.Lock()
			defer mu.Unlock()
			if e.AggregateID == "b" && !failed {
				failed = true
				return errors.New("once")
			}
			got = append(got, e.AggregateID)
			return nil
		}), cfg)
	}
	r.publish(brokersuite.Event("a", 1))
	r.publish(brokersuite.Event("b", 1))
	r.publish(brokersuite.Event("c", 1))
	waitUntil(t, "all are handled", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(got) >= 3
	})
	waitUntil(t, "all are acknowledged", func() bool { return r.unacked("projector") == 0 })
	mu.Lock()
	defer mu.Unlock()
	if strings.Join(got, "") != "abc" {
		t.Errorf("handled in the order %v", got)
	}
}

// limited is a handler with limits.
type limited struct {
	funcHandler
	limits outbox.Limits
}

func (l limited) Limits() outbox.Limits { return l.limits }

func TestTimeoutAboveAckWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	nothing := funcHandler(func(context.Context, outbox.Envelope) error { return nil })
	for timeout, want := range map[time.Duration]int{time.Second: 0, 2 * time.Second: 1, 3 * time.Second: 1} {
		var log lockedBuffer
		cfg := subscribeConfig()
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		stop := r.subscribe(limited{nothing, outbox.Limits{Timeout: timeout}}, cfg)
		waitUntil(t, "it reads", func() bool { return r.waiting("projector") })
		stop()
		if n := strings.Count(log.String(), "AckWait"); n != want {
			t.Errorf("timeout %v: %d warnings, want %d", timeout, n, want)
		}
		waitUntil(t, "it has left", func() bool { return !r.waiting("projector") })
	}
}

func TestSubscribeDefaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		cfg                                  SubscribeConfig
		limit                                int
		concurrency, prefetch, maxAckPending int
	}{
		{SubscribeConfig{}, 0, 1, 256, 1000},
		{SubscribeConfig{}, 8, 8, 256, 1000},
		{SubscribeConfig{Concurrency: 2, Prefetch: 3, MaxAckPending: 4}, 8, 2, 3, 4},
		{SubscribeConfig{}, 100, 100, 400, 1000},
	} {
		c := test.cfg.withDefaults(outbox.Limits{Concurrency: test.limit})
		if c.Concurrency != test.concurrency || c.Prefetch != test.prefetch || c.MaxAckPending != test.maxAckPending {
			t.Errorf("%+v: concurrency %d, prefetch %d, max ack pending %d", test, c.Concurrency, c.Prefetch, c.MaxAckPending)
		}
	}
}
