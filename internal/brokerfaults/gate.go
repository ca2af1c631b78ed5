package main

import (
	"context"
	"sync"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// gate stops the relays' calls of their publishers when so many events are answered,
// until it is opened: the faults come in the middle, however fast the machine is.
type gate struct {
	changed notice

	mu       sync.Mutex
	answered int // events that were confirmed or rejected
	limit    int // so many shut it; 0 for none
	waiting  int // calls
	opened   chan struct{}
}

// shut returns when a call waits that came after n events were answered.
func (g *gate) shut(ctx context.Context, n int) error {
	g.mu.Lock()
	g.limit, g.opened = max(n, 1), make(chan struct{})
	g.mu.Unlock()
	return g.changed.await(ctx, "a call of the publisher", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.waiting > 0
	})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit, g.waiting = 0, 0
	close(g.opened)
}

func (g *gate) pass(ctx context.Context) {
	g.mu.Lock()
	opened := g.opened
	if g.limit == 0 || g.answered < g.limit {
		g.mu.Unlock()
		return
	}
	g.waiting++
	g.mu.Unlock()
	g.changed.tell()
	select {
	case <-opened:
	case <-ctx.Done():
	}
}

func (g *gate) count(results []error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, err := range results {
		if err == nil || outbox.FailureKindOf(err) == outbox.FailureRejected {
			g.answered++
		}
	}
}

// gated is a relay's publisher behind the gate.
type gated struct {
	outbox.Publisher
	gate *gate
}

// Publish implements outbox.Publisher.
func (g gated) Publish(ctx context.Context, messages []outbox.Envelope) []error {
	g.gate.pass(ctx)
	results := g.Publisher.Publish(ctx, messages)
	g.gate.count(results)
	return results
}
