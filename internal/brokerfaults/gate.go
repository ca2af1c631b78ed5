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
	answered int           // events that were confirmed or rejected
	limit    int           // so many shut it
	opened   chan struct{} // closed by open; nil while it isn't to shut
	waiting  int           // calls
	inside   int           // calls that have passed and not ended
}

// shut returns when a call waits that came after n events were answered, and no other is
// under way.
func (g *gate) shut(ctx context.Context, n int) error {
	g.mu.Lock()
	g.limit, g.opened = n, make(chan struct{})
	g.mu.Unlock()
	return g.changed.await(ctx, "a call of the publisher", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.waiting > 0 && g.inside == 0
	})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.opened)
	g.opened, g.waiting = nil, 0
}

// pass waits while it is shut, until ctx ends.
func (g *gate) pass(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.opened != nil && g.answered >= g.limit && ctx.Err() == nil {
		opened := g.opened
		g.waiting++
		g.mu.Unlock()
		g.changed.tell()
		select {
		case <-opened:
		case <-ctx.Done():
		}
		g.mu.Lock()
	}
	g.inside++
}

// leave counts what a call that has passed was answered.
func (g *gate) leave(results []error) {
	g.mu.Lock()
	for _, err := range results {
		if err == nil || outbox.FailureKindOf(err) == outbox.FailureRejected {
			g.answered++
		}
	}
	g.inside--
	g.mu.Unlock()
	g.changed.tell()
}

// gated is a relay's publisher behind the gate. What it returns is recorded first.
type gated struct {
	outbox.Publisher
	gate   *gate
	record *record
}

// Publish implements outbox.Publisher.
func (g gated) Publish(ctx context.Context, messages []outbox.Envelope) []error {
	g.gate.pass(ctx)
	results := g.Publisher.Publish(ctx, messages)
	g.record.answered(messages, results)
	g.gate.leave(results)
	return results
}
