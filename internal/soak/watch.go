package main

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// looks is how many looks are taken on the way.
const looks = 40

// watch looks at the process at equal steps.
type watch struct {
	db    *outbox.DB
	step  int64
	next  int64
	begun time.Time
	seen  []sample
}

type sample struct {
	published   int64
	heap        uint64 // bytes in use after a collection
	goroutines  int
	connections int
}

func newWatch(db *outbox.DB, events int64) *watch {
	step := max(events/looks, 1)
	return &watch{db: db, step: step, next: step, begun: time.Now()}
}

// run looks until ctx ends.
func (w *watch) run(ctx context.Context, published *atomic.Int64) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.look(published.Load())
		}
	}
}

func (w *watch) look(published int64) {
	if published < w.next {
		return
	}
	w.next = published + w.step
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s := sample{published, m.HeapAlloc, runtime.NumGoroutine(), w.db.Stats().OpenConnections}
	w.seen = append(w.seen, s)
	fmt.Printf("%9d published, %6.0f events/s, heap %5.1f MiB, %3d goroutines, %2d connections\n",
		s.published, float64(s.published)/time.Since(w.begun).Seconds(), float64(s.heap)/(1<<20), s.goroutines, s.connections)
}

// verdict compares the second half with the first, beyond its beginning.
func (w *watch) verdict() error {
	if len(w.seen) < 8 {
		return fmt.Errorf("%d looks were taken: too few to tell", len(w.seen))
	}
	half := len(w.seen) / 2
	first, second := most(w.seen[1:half]), most(w.seen[half:])
	fmt.Printf("most in the first half: heap %.1f MiB, %d goroutines, %d connections; in the second: %.1f MiB, %d, %d\n",
		float64(first.heap)/(1<<20), first.goroutines, first.connections,
		float64(second.heap)/(1<<20), second.goroutines, second.connections)
	switch {
	case second.heap > first.heap*3/2+8<<20:
		return fmt.Errorf("the heap grew from %d to %d bytes", first.heap, second.heap)
	case second.goroutines > first.goroutines+4:
		return fmt.Errorf("the goroutines grew from %d to %d", first.goroutines, second.goroutines)
	case second.connections > first.connections+4:
		return fmt.Errorf("the connections grew from %d to %d", first.connections, second.connections)
	}
	return nil
}

func most(seen []sample) (m sample) {
	for _, s := range seen {
		m.heap = max(m.heap, s.heap)
		m.goroutines = max(m.goroutines, s.goroutines)
		m.connections = max(m.connections, s.connections)
	}
	return m
}
