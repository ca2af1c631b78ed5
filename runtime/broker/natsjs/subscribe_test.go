package natsjs

import (
	"bytes"
	"context"
	"encoding/json"
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

type funcHandler func(ctx context.Context, e outbox.Envelope) error

func (funcHandler) Name() string                                  { return "projector" }
func (funcHandler) EventTypes() []string                          { return []string{brokersuite.TypeA, brokersuite.TypeB} }
func (funcHandler) Limits() outbox.Limits                         { return outbox.Limits{} }
func (funcHandler) Park(context.Context, outbox.Unreadable) error { return nil }
func (f funcHandler) Handle(ctx context.Context, e outbox.Envelope) (outbox.Handling, error) {
	if err := f(ctx, e); err != nil {
		return outbox.NotHandled, err
	}
	return outbox.Applied, nil
}

func (r *rig) publish(events ...outbox.Envelope) {
	r.t.Helper()
	if err := errors.Join(r.publisher(PublisherConfig{}).Publish(r.t.Context(), events)...); err != nil {
		r.t.Fatal(err)
	}
}

// ackSubject reads the number of deliveries from the subject of an
// acknowledgement: $JS.ACK.<stream>.<consumer>.<deliveries>… or, in its longer
// form, $JS.ACK.<domain>.<account>.<stream>.<consumer>.<deliveries>….
func deliveries(ackSubject string) string {
	tokens := strings.Split(ackSubject, ".")
	if len(tokens) > 9 {
		return tokens[6]
	}
	return tokens[4]
}

// Every acknowledgement is lost once: every message comes again, and is
// acknowledged then.
func TestLostAcks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.proxy.dropIf(func(subject string, body []byte) bool {
		return strings.HasPrefix(subject, "$JS.ACK.") && string(body) == "+ACK" && deliveries(subject) == "1"
	})
	var calls sync.Map
	done := make(chan struct{})
	var repeats atomic.Int64
	const n = 3
	cfg := subscribeConfig()
	cfg.AckWait, cfg.AckTimeout, cfg.Stats = 400*time.Millisecond, 200*time.Millisecond, new(outbox.SubscribeStats)
	r.subscribe(funcHandler(func(_ context.Context, e outbox.Envelope) error {
		if _, again := calls.LoadOrStore(e.ID, true); again && repeats.Add(1) == n {
			close(done)
		}
		return nil
	}), cfg)
	for i := range n {
		r.publish(brokersuite.Event("a", int64(i)))
	}
	<-done
	waitUntil(t, "all are acknowledged", func() bool { return r.unacked("projector") == 0 })
	waitUntil(t, "the counts are right", func() bool {
		return cfg.Stats.Delivered.Load() == 2*n && cfg.Stats.Redelivered.Load() == n &&
			cfg.Stats.AckFailed.Load() == n && cfg.Stats.Acked.Load() == n && cfg.Stats.Failed.Load() == 0
	})
}

// The broker restarts between the handler's commit and the acknowledgement: it is sent
// when the connection is back, and nothing is delivered twice.
func TestAckAfterReconnect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := subscribeConfig()
	cfg.AckWait, cfg.AckTimeout, cfg.Stats = time.Minute, 20*time.Second, new(outbox.SubscribeStats)
	restart := make(chan struct{})
	r.subscribe(funcHandler(func(context.Context, outbox.Envelope) error {
		r.server.Stop()
		waitUntil(t, "the connection is lost", func() bool { return r.via.Conn().Status() != nats.CONNECTED })
		close(restart)
		return nil
	}), cfg)
	r.publish(brokersuite.Event("a", 1))
	<-restart
	r.restart(t)
	waitUntil(t, "it is acknowledged", func() bool { return cfg.Stats.Acked.Load() == 1 && r.unacked("projector") == 0 })
	if n, failed := cfg.Stats.Delivered.Load(), cfg.Stats.AckFailed.Load(); n != 1 || failed != 0 {
		t.Errorf("%d deliveries and %d failed acknowledgements, want 1 and 0", n, failed)
	}
}

// A handler may take longer than AckWait: the server hears of it, and of the message
// that waits behind it.
func TestSlowHandlerIsNotRedelivered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	alive := make(chan struct{}, 100)
	r.proxy.dropIf(func(subject string, body []byte) bool {
		if strings.HasPrefix(subject, "$JS.ACK.") && string(body) == "+WPI" {
			alive <- struct{}{}
		}
		return false
	})
	cfg := subscribeConfig()
	cfg.AckWait, cfg.Concurrency, cfg.Stats = 600*time.Millisecond, 2, new(outbox.SubscribeStats)
	var calls atomic.Int64
	r.subscribe(funcHandler(func(context.Context, outbox.Envelope) error {
		if calls.Add(1) > 1 {
			return nil
		}
		for range 16 { // of two messages more than two and a half times AckWait
			select {
			case <-alive:
			case <-time.After(20 * time.Second):
				return errors.New("no sign of life")
			}
		}
		return nil
	}), cfg)
	r.publish(brokersuite.Event("a", 1), brokersuite.Event("a", 2))
	waitUntil(t, "both are acknowledged", func() bool { return cfg.Stats.Acked.Load() >= 2 && r.unacked("projector") == 0 })
	if n := cfg.Stats.Redelivered.Load(); n != 0 || calls.Load() != 2 {
		t.Errorf("%d redeliveries and %d calls while a handler was running", n, calls.Load())
	}
}

func TestConcurrency(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := subscribeConfig()
	cfg.Concurrency, cfg.Stats = 4, new(outbox.SubscribeStats)
	var running sync.WaitGroup
	running.Add(4)
	r.subscribe(funcHandler(func(context.Context, outbox.Envelope) error {
		running.Done()
		running.Wait() // passes when four run at a time
		return nil
	}), cfg)
	for i := range 4 {
		r.publish(brokersuite.Event(fmt.Sprint(i), 1))
	}
	waitUntil(t, "four handlers run at a time", func() bool { return cfg.Stats.Handled.Load() == 4 })
}

// A message is given back with a delay that grows: a bare nak comes back at once.
func TestNakDelays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	delays := make(chan time.Duration, 100)
	r.proxy.dropIf(func(subject string, body []byte) bool {
		if rest, isNak := strings.CutPrefix(string(body), "-NAK"); isNak && strings.HasPrefix(subject, "$JS.ACK.") {
			var delay struct{ Delay time.Duration }
			_ = json.Unmarshal([]byte(rest), &delay) // 0 when there is none
			delays <- delay.Delay
		}
		return false
	})
	cfg := subscribeConfig()
	cfg.Backoff, cfg.MaxBackoff = 10*time.Millisecond, 40*time.Millisecond
	cfg.Prefetch = 1 // its room has to come back each time
	r.subscribe(funcHandler(func(context.Context, outbox.Envelope) error { return errors.New("no") }), cfg)
	r.publish(brokersuite.Event("a", 1))
	for i, want := range []time.Duration{10, 20, 40, 40} {
		want *= time.Millisecond
		if got := <-delays; got < want*79/100 || got > want*121/100 {
			t.Errorf("delay %d is %v, want about %v", i+1, got, want)
		}
	}
}

// No payload, header value or panic value gets into the log, at any level.
func TestLogShowsNoData(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var log lockedBuffer
	cfg := subscribeConfig()
	cfg.Stats, cfg.Logger = new(outbox.SubscribeStats), slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug - 8}))
	var calls atomic.Int64
	r.subscribe(funcHandler(func(_ context.Context, e outbox.Envelope) error {
		switch calls.Add(1) {
		case 1:
			panic(string(e.Data))
		case 2:
			var m map[string]int
			m["x"] = 1 //nolint:staticcheck // the panic is meant
		case 3:
			return errors.New("the handler's own words")
		}
		return nil
	}), cfg)
	e := brokersuite.Event("canary-aggregate", 1)
	e.Data, e.Headers = []byte(`"canary-payload"`), map[string]string{"tenant": "canary-header"}
	r.publish(e)
	waitUntil(t, "it is acknowledged", func() bool { return cfg.Stats.Acked.Load() == 1 })
	if n := cfg.Stats.Panics.Load(); n != 2 {
		t.Errorf("%d panics counted, want 2", n)
	}
	text := log.String()
	for _, want := range []string{"the handler's own words", "panic with a string", "nil map", e.ID.String(), "stack="} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	if strings.Contains(text, "canary") {
		t.Errorf("the log shows data:\n%s", text)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

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
