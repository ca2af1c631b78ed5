package delivery

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// fuzzyBroker delivers in order for the first time, and what was given back at some
// time after its wait, in any order.
type fuzzyBroker struct {
	mu       sync.Mutex
	rnd      *rand.Rand
	waiting  []queued // as they would be delivered
	unacked  int
	returned int
}

type queued struct {
	event      outbox.Envelope
	deliveries int
	due        time.Time
}

// next takes a message that is due; any one of those that were given back.
func (b *fuzzyBroker) next() (q queued, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var due []int
	for i, q := range b.waiting {
		if q.due.After(time.Now()) {
			continue
		}
		due = append(due, i)
		if q.deliveries == 0 {
			break // new ones come in order
		}
	}
	if len(due) == 0 {
		return q, false
	}
	i := due[b.rnd.IntN(len(due))]
	q = b.waiting[i]
	b.waiting = append(b.waiting[:i:i], b.waiting[i+1:]...)
	q.deliveries++
	return q, true
}

// giveBack puts a message in front of the new ones.
func (b *fuzzyBroker) giveBack(q queued, after time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.returned++
	q.due = time.Now().Add(after + time.Duration(b.rnd.Int64N(int64(time.Second))))
	b.waiting = append([]queued{q}, b.waiting...)
}

// Whatever fails, pauses and comes back in whatever order: of one aggregate the versions
// that are applied never go back, and all are applied.
func TestOrderIsKept(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { orderIsKept(t, seed) })
		})
	}
}

func orderIsKept(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test's
	aggregates, each := 1+rnd.IntN(5), 1+rnd.IntN(30)
	b := &fuzzyBroker{rnd: rnd, unacked: aggregates * each}
	for v := range each {
		for a := range aggregates {
			b.waiting = append(b.waiting, queued{event: event(fmt.Sprint("a", a, "-"), int64(v+1))})
		}
	}
	var (
		mu      sync.Mutex
		applied = make(map[string]int64)
		running = make(map[string]bool)
	)
	chance := func(p float64) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.rnd.Float64() < p
	}
	r := newRig(t, func(c *Config) {
		c.Concurrency = 1 + rnd.IntN(4)
		c.NoJitter = false
		c.Hold = seed%5 == 4
		if seed%3 == 0 {
			c.Window = 1 + rnd.IntN(10)
		}
	})
	r.handle = func(_ context.Context, e outbox.Envelope) error {
		mu.Lock()
		if running[e.AggregateID] {
			t.Errorf("two of %s at a time", e.AggregateID)
		}
		running[e.AggregateID] = true
		mu.Unlock()
		if chance(0.5) {
			time.Sleep(50 * time.Millisecond)
		}
		mu.Lock()
		defer mu.Unlock()
		delete(running, e.AggregateID)
		switch {
		case chance(0.1):
			return errScripted
		case chance(0.1):
			return again(300 * time.Millisecond)
		case chance(0.02):
			return away()
		case chance(0.05):
			panic("scripted")
		}
		if last := applied[e.AggregateID]; e.AggregateVersion < last {
			t.Errorf("%s is applied after version %d", name(e), last)
		}
		applied[e.AggregateID] = e.AggregateVersion
		return nil
	}
	for {
		b.mu.Lock()
		left := b.unacked
		b.mu.Unlock()
		if left == 0 || time.Since(r.begin) > 24*time.Hour {
			break
		}
		q, ok := b.next()
		if !ok {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		r.put(Message{
			Envelope: q.event, Deliveries: q.deliveries,
			Ack: func(context.Context) {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.unacked--
			},
			Again: func(_ context.Context, after time.Duration) { b.giveBack(q, after) },
		})
	}
	r.engine.Close(time.Hour)
	mu.Lock()
	defer mu.Unlock()
	if b.unacked != 0 || len(applied) != aggregates {
		t.Errorf("%d events are left after %v", b.unacked, time.Since(r.begin))
	}
	if r.engine.guard.n != 0 {
		t.Errorf("the guard remembers %d", r.engine.guard.n)
	}
}
