package delivery

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// The tests run in bubbles of testing/synctest: time is theirs.

var errScripted = errors.New("scripted")

// away is what a handler returns while its database is away.
func away() error { return &outbox.HandlingError{Kind: outbox.FailureUnavailable, Cause: errScripted} }

// again is what a handler returns that wants the event after a wait.
func again(after time.Duration) error {
	return &outbox.HandlingError{Kind: outbox.FailureFailed, Again: after, Cause: errScripted}
}

// rig is an engine with a handler that a test scripts and a broker that records.
type rig struct {
	t      *testing.T
	engine *Engine
	stats  outbox.SubscribeStats
	log    bytes.Buffer // read it when all is still
	begin  time.Time

	mu     sync.Mutex
	handle func(ctx context.Context, e outbox.Envelope) error
	park   func(m outbox.Unreadable) error
	err    error    // what fails returns
	events []string // what happened, in order
	alive  map[string]int
}

func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, begin: time.Now(), alive: make(map[string]int)}
	r.handle = func(context.Context, outbox.Envelope) error { return nil }
	r.park = func(outbox.Unreadable) error { return nil }
	cfg := Config{
		Handler: r, Concurrency: 1, Backoff: time.Second, MaxBackoff: 30 * time.Second, NoJitter: true,
		Logger: slog.New(slog.NewTextHandler(&r.log, nil)), Stats: &r.stats,
	}
	if change != nil {
		change(&cfg)
	}
	r.engine = New(t.Context(), cfg)
	return r
}

// fails is a script: the error that a test has set.
func (r *rig) fails() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *rig) set(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (*rig) Name() string          { return "projector" }
func (*rig) EventTypes() []string  { return []string{"order.accepted"} }
func (*rig) Limits() outbox.Limits { return outbox.Limits{} }

func (r *rig) Handle(ctx context.Context, e outbox.Envelope) (outbox.Handling, error) {
	r.note("handle %s", name(e))
	if err := r.handle(ctx, e); err != nil {
		return outbox.NotHandled, err
	}
	r.note("done %s", name(e))
	return outbox.Applied, nil
}

func (r *rig) Park(_ context.Context, m outbox.Unreadable) error {
	r.note("park %s", m.Reference)
	return r.park(m)
}

func (r *rig) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf(format, args...))
}

// take returns what has happened since the last call, when all is still.
func (r *rig) take() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events
	r.events = nil
	return events
}

// want compares what has happened since the last call.
func (r *rig) want(want ...string) {
	r.t.Helper()
	if got := r.take(); fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("after %v:\n got %q\nwant %q", time.Since(r.begin), got, want)
	}
}

func name(e outbox.Envelope) string { return fmt.Sprintf("%s%d", e.AggregateID, e.AggregateVersion) }

// event has an id that is made of the aggregate and the version.
func event(aggregate string, version int64) outbox.Envelope {
	e := outbox.Envelope{Type: "order.accepted", AggregateType: "order", AggregateID: aggregate, AggregateVersion: version}
	copy(e.ID[:], aggregate)
	binary.BigEndian.PutUint64(e.ID[8:], uint64(version)) //nolint:gosec // only has to differ
	return e
}

// message records what becomes of it.
func (r *rig) message(e outbox.Envelope, deliveries int) Message {
	n := name(e)
	return Message{
		Envelope: e, Deliveries: deliveries, Attrs: []any{"sequence", n},
		Ack:   func(context.Context) { r.note("ack %s", n) },
		Again: func(_ context.Context, after time.Duration) { r.note("again %s %v", n, after) },
		Alive: func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.alive[n]++
		},
	}
}

func (r *rig) unreadable(reference string) Message {
	m := r.message(outbox.Envelope{AggregateID: reference}, 1)
	m.Unreadable = &outbox.Unreadable{Reference: reference, Reason: outbox.ErrNotAnEvent}
	return m
}

// submit hands over the events of an aggregate, for the first time.
func (r *rig) submit(aggregate string, versions ...int64) {
	r.t.Helper()
	for _, v := range versions {
		r.put(r.message(event(aggregate, v), 1))
	}
}

func (r *rig) put(m Message) {
	r.t.Helper()
	if !r.engine.Submit(r.t.Context(), m) {
		r.t.Error("Submit refused a message")
	}
}

func (r *rig) signs(name string) int {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.alive[name]
}
