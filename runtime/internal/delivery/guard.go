package delivery

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const (
	// behind is how long after an event that failed its followers come again. Those
	// that come before it all the same wait as long again, and ever longer up to
	// maxBehind.
	behind    = 10 * time.Millisecond
	maxBehind = time.Second

	// overdue is how long past its time a message that was given back is waited for:
	// another process may have got it.
	overdue = 5 * time.Second

	// maxReturned bounds what is remembered. Beyond it, order gives way.
	maxReturned = 100_000
)

// guard remembers what was given back of each aggregate, so that later events don't
// go past it.
type guard struct {
	mu    sync.Mutex
	lanes map[lane][]returnedEvent // in their order
	n     int
}

// returnedEvent is one that is to come again.
type returnedEvent struct {
	version int64
	id      uuid.UUID
	due     time.Time // when those behind it may come
}

func (g *guard) init() { g.lanes = make(map[lane][]returnedEvent) }

// heldBack notes that a message has come, and reports whether an earlier event of
// its lane has been given back and is still to come. Then this one is as good as
// given back too, for the wait returned. No event is given up on before overdue has
// passed since open, too.
func (g *guard) heldBack(key lane, h *held, open time.Time) (wait time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.lanes[key]) == 0 {
		return 0, false
	}
	g.remove(key, h)
	now := time.Now()
	events := g.lanes[key]
	for len(events) > 0 && now.Sub(later(events[0].due, open)) > overdue {
		g.cut(key, 0)
		events = g.lanes[key]
	}
	if at, _ := find(events, h); at == 0 {
		return 0, false
	}
	if wait = events[0].due.Sub(now); wait <= 0 { // all wait for the first one
		wait = min(max(-wait, behind), maxBehind)
	}
	g.add(key, h, now.Add(wait))
	return wait, true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// returned notes a message that is given back.
func (g *guard) returned(key lane, h *held, after time.Duration) {
	if h.Unreadable != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.add(key, h, time.Now().Add(after+behind))
}

func (g *guard) add(key lane, h *held, due time.Time) {
	events := g.lanes[key]
	at, has := find(events, h)
	if has {
		events[at].due = due
		return
	}
	if g.n >= maxReturned {
		return
	}
	g.n++
	g.lanes[key] = slices.Insert(events, at, returnedEvent{
		version: h.Envelope.AggregateVersion, id: h.Envelope.ID, due: due,
	})
}

func (g *guard) remove(key lane, h *held) {
	if at, has := find(g.lanes[key], h); has {
		g.cut(key, at)
	}
}

func (g *guard) cut(key lane, at int) {
	g.n--
	events := g.lanes[key]
	if at == 0 { // the usual one, and cheap
		events = events[1:]
	} else {
		events = slices.Delete(events, at, at+1)
	}
	if g.lanes[key] = events; len(events) == 0 {
		delete(g.lanes, key)
	}
}

// find returns a message's place among events of its aggregate, which are in the
// order of their writer: by version, those of one version by their ids, which
// grow with time.
func find(events []returnedEvent, h *held) (at int, has bool) {
	return slices.BinarySearchFunc(events, h.Envelope, func(r returnedEvent, e outbox.Envelope) int {
		return cmp.Or(cmp.Compare(r.version, e.AggregateVersion), bytes.Compare(r.id[:], e.ID[:]))
	})
}
