package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// pollInterval is the relay's default, the longest wait between two looks.
const pollInterval = 500 * time.Millisecond

// latencyRate is the load of the latency section, in events a second.
const latencyRate = 200

// latency measures from the commit of an event to its confirm by NATS JetStream,
// with a relay that is woken by the writer, in its process, and with one that isn't.
func (b *bench) latency(ctx context.Context) error {
	broker, err := startBroker(ctx)
	if err != nil {
		return err
	}
	defer broker.server.Close()
	for _, k := range []*kind{aggregate, none} {
		box, err := newBox(ctx, b.dsn, k, "latency")
		if err != nil {
			return err
		}
		defer box.close()
		woken := flow{rate: latencyRate, lasts: b.lasts, size: small, relays: 1, publisher: broker.publisher, woken: true}
		polling := woken
		polling.woken = false
		for _, f := range []flow{woken, polling} {
			name := k.text + ", relay woken"
			if !f.woken {
				name = k.text + ", relay in another process"
			}
			if !b.wanted(name) {
				continue
			}
			l, err := b.measureFlow(ctx, box, f, "latency", name)
			if err != nil {
				return err
			}
			if f.woken {
				b.report.add(b.limit("latency", name+", p50 in ms", l.P50, 5))
				b.report.add(b.limit("latency", name+", p99 in ms", l.P99, 30))
			} else {
				b.report.add(b.limit("latency", name+", p99 in poll intervals", l.P99/milliseconds(pollInterval), 1.5))
			}
		}
		if err := broker.empty(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) limit(section, what string, value, bound float64) check {
	return check{Section: section, Database: string(b.flavor), What: what, Value: value, Bound: bound, AtMost: true}
}

// flow is a steady load of one event a transaction, and the relays it goes through.
type flow struct {
	rate      int // events a second
	lasts     time.Duration
	size      int // bytes of payload
	relays    int
	publisher makePublisher
	woken     bool // the first relay is in the writers' process

	// consume starts a consumer that notes the effects: then these are what is
	// waited for, not the confirms.
	consume func(context.Context, *tracker) (stop func() error, err error)
}

const (
	writers  = 32 // transactions at once
	warmUp   = time.Second
	giveUp   = 30 * time.Second // after the last commit
	noteSize = 180              // what a payload has beside its note
)

// measureFlow measures on the staged table, and reports.
func (b *bench) measureFlow(ctx context.Context, box *box, f flow, section, name string) (latencies, error) {
	if err := box.present(ctx); err != nil {
		return latencies{}, err
	}
	times, took, err := b.runFlow(ctx, box, f)
	if end := box.withdraw(context.WithoutCancel(ctx)); err == nil {
		err = end
	}
	if err != nil {
		return latencies{}, fmt.Errorf("%s: %w", name, err)
	}
	slices.Sort(times)
	l := latencies{
		Section: section, Database: string(b.flavor), Case: name, Offered: f.rate, Events: len(times),
		Committed: float64(len(times)) / took.Seconds(),
		P50:       percentile(times, 0.50), P95: percentile(times, 0.95), P99: percentile(times, 0.99), Max: times[len(times)-1],
	}
	b.report.Latencies = append(b.report.Latencies, l)
	b.progress("%-70s p50 %.1f ms, p95 %.1f ms, p99 %.1f ms", name, l.P50, l.P95, l.P99)
	return l, nil
}

// runFlow returns what each event took, in milliseconds, and over what time they
// were committed.
func (b *bench) runFlow(ctx context.Context, box *box, f flow) (times []float64, took time.Duration, err error) {
	warm := int(warmUp.Seconds() * float64(f.rate))
	ids := make([]uuid.UUID, warm+int(f.lasts.Seconds()*float64(f.rate)))
	t := &tracker{events: make(map[uuid.UUID]*tracked, len(ids)), left: len(ids), done: make(chan struct{})}
	for i := range ids {
		ids[i] = outbox.NewEventID()
		t.events[ids[i]] = &tracked{}
	}
	writing, err := openPool(box.cfg, writers, nil)
	if err != nil {
		return nil, 0, err
	}
	defer writing.Close()
	consumed := func() error { return nil }
	if f.consume != nil {
		if consumed, err = f.consume(ctx, t); err != nil {
			return nil, 0, err
		}
	}
	stop, err := b.startRelays(ctx, box, f, writing.DB, t)
	if err != nil {
		return nil, 0, errors.Join(err, consumed())
	}
	err = errors.Join(write(ctx, box, f, writing.DB, ids, t), t.wait(ctx), stop(), consumed())
	if err != nil {
		return nil, 0, err
	}
	first, last := t.events[ids[warm]].committed, time.Time{}
	for _, id := range ids[warm:] {
		e := t.events[id]
		// A confirm can come before the writer has the answer of its COMMIT.
		times = append(times, milliseconds(max(0, e.confirmed.Sub(e.committed))))
		if e.committed.After(last) {
			last = e.committed
		}
	}
	return times, last.Sub(first), nil
}

// startRelays starts the flow's relays and returns a function that stops them.
func (b *bench) startRelays(ctx context.Context, box *box, f flow, shared *outbox.DB, t *tracker) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var relays sync.WaitGroup
	var ends []func()
	errs := make([]error, f.relays)
	stop = func() error {
		cancel()
		relays.Wait()
		for _, end := range ends {
			end()
		}
		return errors.Join(errs...)
	}
	tracked := func(ctx context.Context, ordered bool) (outbox.Publisher, func(), error) {
		p, end, err := f.publisher(ctx, ordered)
		if err == nil && f.consume == nil {
			p = trackedPublisher{p, t}
		}
		return p, end, err
	}
	for i := range f.relays {
		db := shared
		if i > 0 || !f.woken {
			p, err := openPool(box.cfg, b.idle, nil)
			if err != nil {
				return nil, errors.Join(err, stop())
			}
			ends = append(ends, func() { _ = p.Close() })
			db = p.DB
		}
		relay, end, err := box.newRelay(ctx, crew{publisher: tracked, maxBatches: b.maxBatches, batch: b.batch}, db, nil)
		if err != nil {
			return nil, errors.Join(err, stop())
		}
		ends = append(ends, end)
		relays.Go(func() { errs[i] = relay.Run(ctx) })
	}
	if err := box.awaitRelays(ctx, f.relays); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

// write commits an event at each tick, whether or not those before are through.
func write(ctx context.Context, box *box, f flow, db *outbox.DB, ids []uuid.UUID, t *tracker) error {
	note := strings.Repeat("x", max(0, f.size-noteSize))
	due := make(chan int, len(ids))
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for w := range writers {
		wg.Go(func() {
			for i := range due {
				_, err := outbox.InTx(ctx, db, func(tx *outbox.Tx) error {
					return box.kind.write(ctx, tx, ids[i], int64(i%aggregates), note)
				})
				t.committed(ids[i], time.Now())
				if err != nil {
					errs[w] = err
					return
				}
			}
		})
	}
	start := time.Now()
	for i := range ids {
		time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(f.rate))))
		due <- i
	}
	close(due)
	wg.Wait()
	return errors.Join(errs...)
}

// wait returns when all events are confirmed.
func (t *tracker) wait(ctx context.Context) error {
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(giveUp):
		t.mu.Lock()
		defer t.mu.Unlock()
		return fmt.Errorf("%d of %d events are not confirmed", t.left, len(t.events))
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// percentile is the least value that at least this part of all values don't exceed.
func percentile(sorted []float64, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	n := len(sorted)
	for i, v := range sorted {
		if float64(i+1) >= part*float64(n) {
			return v
		}
	}
	return sorted[n-1]
}
