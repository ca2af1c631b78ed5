package outboxtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// group is what the broker knows of a consumer; it outlives its subscriptions.
type group struct {
	types  []string
	acked  map[int]bool // by index into Broker.stored
	flight map[int]bool
	from   int // nothing below waits: it is acknowledged or of another type
}

// Subscribe delivers to the handler, in the order of the broker, what it has not
// acknowledged yet, until ctx ends; then it waits for a handler that runs and
// returns nil. The handler's own context doesn't end with ctx. The handler's name
// is the consumer: whoever subscribes again under it goes on where it was, and
// several at a time share the messages.
//
// A message is acknowledged when Handle has returned nil. After an error or a
// panic, it is delivered again, before those behind it.
func (b *Broker) Subscribe(ctx context.Context, h outbox.Handler) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return ErrClosed
	}
	b.running.Add(1)
	defer b.running.Done()
	g, ok := b.groups[h.Name()]
	if !ok {
		g = &group{acked: make(map[int]bool), flight: make(map[int]bool)}
		b.groups[h.Name()] = g
	}
	g.types, g.from = h.EventTypes(), 0
	b.mu.Unlock()

	for {
		index, e, copies, err := b.next(ctx, g)
		if err != nil {
			if errors.Is(err, ErrClosed) {
				return err
			}
			return nil // ctx ended
		}
		ok := true
		for range copies {
			ok = b.handle(context.WithoutCancel(ctx), h, clone(e)) && ok
		}
		b.settle(ctx, g, index, ok)
	}
}

// next takes the first message that is neither acknowledged nor in flight, or
// waits for one.
func (b *Broker) next(ctx context.Context, g *group) (index int, e outbox.Envelope, copies int, err error) {
	for {
		b.mu.Lock()
		wait := b.changed
		switch {
		case b.closed:
			b.mu.Unlock()
			return 0, e, 0, ErrClosed
		case ctx.Err() != nil:
			b.mu.Unlock()
			return 0, e, 0, ctx.Err()
		case b.down || b.paused:
		default:
			for i := g.from; i < len(b.stored); i++ {
				switch waits := !g.acked[i] && slices.Contains(g.types, b.stored[i].Type); {
				case waits && !g.flight[i]:
					g.flight[i] = true
					index, e, copies = i, b.stored[i], b.copies
					b.mu.Unlock()
					return index, e, copies, nil
				case !waits && i == g.from:
					g.from++
				}
			}
		}
		b.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
		}
	}
}

// settle acknowledges, or makes the message due again after the delay. An
// acknowledgement that reaches a stopped broker is lost.
func (b *Broker) settle(ctx context.Context, g *group, index int, ok bool) {
	if !ok {
		t := time.NewTimer(b.cfg.RedeliveryDelay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	b.change(func() {
		delete(g.flight, index)
		switch {
		case !ok || b.down:
		case b.lostAcks > 0:
			b.lostAcks--
		default:
			g.acked[index] = true
		}
	})
}

func (b *Broker) handle(ctx context.Context, h outbox.Handler, e outbox.Envelope) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			ok = false
			b.cfg.Logger.Error("a handler panicked", "consumer", h.Name(), "event_id", e.ID, "error", fmt.Sprint(v))
		}
	}()
	if _, err := h.Handle(ctx, e); err != nil {
		b.cfg.Logger.Warn("a handler failed", "consumer", h.Name(), "event_id", e.ID, "error", err)
		return false
	}
	return true
}
