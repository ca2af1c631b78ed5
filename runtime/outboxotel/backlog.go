package outboxotel

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// staleAfter is after how long a figure that could not be read anew is no longer shown: a
// backlog of yesterday must not look like one of now.
const staleAfter = 3 * time.Minute

// backlog is what was last read.
type backlog struct {
	mu       sync.Mutex
	waiting  outbox.Backlog
	read     time.Time
	parked   map[string]int64
	parkedAt time.Time
	paused   bool
	onHold   bool
	pausing  bool // whether these are known: a relay has our observer
}

func (b *backlog) set(w outbox.Backlog, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting, b.read = w, at
}

func (b *backlog) setParked(by map[string]int64, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.parked, b.parkedAt = by, at
}

func (b *backlog) pause(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused, b.pausing = on, true
}

func (b *backlog) hold(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.onHold = on
}

// observeBacklog registers the gauges.
func (t *Telemetry) observeBacklog() error {
	b := builder{meter: t.meter}
	events := b.gauge("outbox.backlog", "{event}", "Rows of the outbox that wait for a relay, and that are dead.")
	oldest := b.seconds("outbox.backlog.oldest_age", "How long the longest waiting event has been due.")
	paused := b.gauge("outbox.relay.paused", "", "1 while a relay waits for the broker.")
	onHold := b.gauge("outbox.relay.on_hold", "", "1 while somebody has paused the claims of all relays.")
	parked := b.gauge("outbox.parked", "{event}", "Events that consumers gave up on, until they are redriven.")
	return b.observe(func(_ context.Context, o metric.Observer) error {
		t.backlog.mu.Lock()
		defer t.backlog.mu.Unlock()
		now := time.Now()
		if last := &t.backlog; now.Sub(last.read) < staleAfter {
			o.ObserveInt64(events, int64(last.waiting.Waiting), with(attribute.String(attrState, "waiting")))
			o.ObserveInt64(events, int64(last.waiting.Dead), with(attribute.String(attrState, "dead")))
			o.ObserveFloat64(oldest, last.waiting.OldestDue.Seconds())
		}
		if t.backlog.pausing {
			o.ObserveInt64(paused, oneIf(t.backlog.paused))
			o.ObserveInt64(onHold, oneIf(t.backlog.onHold))
		}
		if now.Sub(t.backlog.parkedAt) < staleAfter {
			t.observeParked(o, parked)
		}
		return nil
	}, events, oldest, paused, onHold, parked)
}

func oneIf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// observeParked tells 0 of every declared consumer that has none, so that an alert sees
// the first one come.
func (t *Telemetry) observeParked(o metric.Observer, parked metric.Int64Observable) {
	counts := make(map[string]int64, len(t.consumers)+1)
	for name := range t.consumers {
		counts[name] = 0
	}
	for name, n := range t.backlog.parked {
		counts[t.consumers.known(name)] += n
	}
	for name, n := range counts {
		o.ObserveInt64(parked, n, with(attribute.String(attrConsumer, name)))
	}
}

// WatchConfig says what to count, by queries that read an index each. Each may be nil.
type WatchConfig struct {
	// Backlog counts the outbox: a store's Backlog. A relay with [Telemetry.Relay] counts
	// it by itself; this is for a process without one.
	Backlog func(ctx context.Context) (outbox.Backlog, error)

	// Parked counts the parked events by consumer: the generated CountParked, with the
	// consumers' database.
	Parked func(ctx context.Context) (map[string]int64, error)

	// Interval is how often they are counted, and how long a count may take. Defaults to 15 s.
	Interval time.Duration
}

// Watch counts at once and then at every interval, until ctx ends. What can't be counted
// is counted by outbox.watch.failures, and after three minutes its last figure is no
// longer shown.
func (t *Telemetry) Watch(ctx context.Context, cfg WatchConfig) error {
	if cfg.Interval <= 0 {
		cfg.Interval = 15 * time.Second
	}
	b := builder{meter: t.meter}
	failures := b.counter("outbox.watch.failures", "{call}", "Counts of backlog or parked events that failed.")
	if b.err != nil {
		return b.err
	}
	for _, call := range []string{"backlog", "parked"} {
		zero(ctx, failures, attribute.String(attrCall, call))
	}
	failed := func(call string) {
		if ctx.Err() == nil { // else it is the stop's doing
			failures.Add(ctx, 1, with(attribute.String(attrCall, call)))
		}
	}
	ticker := time.NewTicker(cfg.Interval)
	defer ticker.Stop()
	for {
		t.count(ctx, cfg, failed)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (t *Telemetry) count(ctx context.Context, cfg WatchConfig, failed func(call string)) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Interval)
	defer cancel()
	if cfg.Backlog != nil {
		if b, err := cfg.Backlog(ctx); err == nil {
			t.backlog.set(b, time.Now())
		} else {
			failed("backlog")
		}
	}
	if cfg.Parked != nil {
		if parked, err := cfg.Parked(ctx); err == nil {
			t.backlog.setParked(parked, time.Now())
		} else {
			failed("parked")
		}
	}
}
