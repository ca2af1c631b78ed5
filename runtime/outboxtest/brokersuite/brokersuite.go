// Package brokersuite is what a broker's publisher and subscriber have to pass. A
// package for a broker is done when its own tests run [RunPublisher] and
// [RunSubscriber] against a real one and pass.
package brokersuite

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// The source and the event types that the suites use. A fixture's broker has to
// take and keep events of these types.
const (
	Source    = "orders"
	TypeA     = "order.accepted"
	TypeB     = "order.cancelled"
	TypeOther = "order.archived" // no handler of the suite wants it
)

// patience is how long the suites wait for what must happen.
const patience = 30 * time.Second

// handler is an outbox.Handler that hands every call to a function and remembers
// what it was given.
type handler struct {
	name   string
	types  []string
	limits outbox.Limits
	handle func(ctx context.Context, e outbox.Envelope) error
	park   func() error    // nil for success
	ending outbox.Handling // of a call without an error

	mu     sync.Mutex
	got    []outbox.Envelope
	parked []outbox.Unreadable
	arrive chan struct{} // signals that got or parked grew
}

func newHandler(name string, handle func(context.Context, outbox.Envelope) error) *handler {
	return &handler{
		name: name, types: []string{TypeA, TypeB}, handle: handle, ending: outbox.Applied, arrive: make(chan struct{}, 1),
	}
}

func (h *handler) Name() string          { return h.name }
func (h *handler) EventTypes() []string  { return h.types }
func (h *handler) Limits() outbox.Limits { return h.limits }

// Park implements outbox.Handler.
func (h *handler) Park(_ context.Context, m outbox.Unreadable) error {
	h.mu.Lock()
	h.parked = append(h.parked, m)
	h.mu.Unlock()
	h.signal()
	if h.park != nil {
		return h.park()
	}
	return nil
}

// Handle implements outbox.Handler.
func (h *handler) Handle(ctx context.Context, e outbox.Envelope) (outbox.Handling, error) {
	h.mu.Lock()
	h.got = append(h.got, e)
	h.mu.Unlock()
	h.signal()
	if h.handle != nil {
		if err := h.handle(ctx, e); err != nil {
			return outbox.NotHandled, err
		}
	}
	return h.ending, nil
}

func (h *handler) signal() {
	select {
	case h.arrive <- struct{}{}:
	default:
	}
}

func (h *handler) all() []outbox.Envelope {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]outbox.Envelope(nil), h.got...)
}

// allParked returns what Park was given.
func (h *handler) allParked() []outbox.Unreadable {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]outbox.Unreadable(nil), h.parked...)
}

// wait returns what the handler was given once it is n calls or more.
func (h *handler) wait(t *testing.T, n int) []outbox.Envelope {
	t.Helper()
	return waitFor(t, h, "Handle", n, h.all)
}

// waitParked returns what Park was given once it is n calls or more.
func (h *handler) waitParked(t *testing.T, n int) []outbox.Unreadable {
	t.Helper()
	return waitFor(t, h, "Park", n, h.allParked)
}

func waitFor[T any](t *testing.T, h *handler, what string, n int, all func() []T) []T {
	t.Helper()
	deadline := time.After(patience)
	for {
		if got := all(); len(got) >= n {
			return got
		}
		select {
		case <-h.arrive:
		case <-deadline:
			t.Fatalf("%s was called %d times in %v, want %d", what, len(all()), patience, n)
		}
	}
}

// eventually polls what no signal tells.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: not within %v", what, patience)
		panic("unreachable")
	}
}

func publish(t *testing.T, p outbox.Publisher, events ...outbox.Envelope) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// A broker that has just come back may need a moment.
	for {
		err := errors.Join(p.Publish(ctx, events)...)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("publish: %v", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
