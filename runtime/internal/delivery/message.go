package delivery

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Message is one delivery.
type Message struct {
	Envelope   outbox.Envelope
	Unreadable *outbox.Unreadable // set when there is no envelope
	Deliveries int                // 1 for the first one; 0 where the broker doesn't say

	// Attrs are its place at the broker, for the log.
	Attrs []any

	// Ack tells the broker that the message is done with. Called once, unless Again is.
	Ack func(ctx context.Context)

	// Again gives the message back, to be delivered after the wait, 0 for at once.
	// Called once, unless Ack is. With Hold it is called with 0 at the end only, and
	// may be nil.
	Again func(ctx context.Context, after time.Duration)

	// Alive tells the broker that the message is being worked on; may be nil. It
	// isn't called after Ack or Again.
	Alive func()
}

// held is a message in the engine's hands.
type held struct {
	Message
	repeated bool // it was handed to the handler before, here

	mu   sync.Mutex
	done bool // Ack or Again is called
}

func (e *Engine) again(h *held, after time.Duration) {
	h.end(func() {
		if h.Again != nil {
			h.Again(e.ctx, after)
		}
	})
}

// end calls f, and lets no sign of life follow.
func (h *held) end(f func()) {
	h.mu.Lock()
	h.done = true
	h.mu.Unlock()
	f()
}

func (e *Engine) log(h *held) *slog.Logger {
	log := e.cfg.Logger.With(h.Attrs...)
	if h.Unreadable != nil {
		return log
	}
	return log.With("event_id", h.Envelope.ID, "event_type", h.Envelope.Type)
}

// keepAlive gives the signs of life until the last lane has ended.
func (e *Engine) keepAlive() {
	ticker := time.NewTicker(e.cfg.AliveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			e.signs()
		case <-e.idle:
			return
		}
	}
}

func (e *Engine) signs() {
	e.mu.Lock()
	all := make([]*held, 0, len(e.alive))
	for h := range e.alive {
		all = append(all, h)
	}
	e.mu.Unlock()
	for _, h := range all {
		h.mu.Lock()
		if !h.done && h.Alive != nil {
			h.Alive()
		}
		h.mu.Unlock()
	}
}
