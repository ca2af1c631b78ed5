package delivery

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const (
	// overdue is how long past its delay a message that was given back is waited for:
	// another process may have got it.
	overdue = 5 * time.Second

	// maxReturned bounds what is remembered. Beyond it, order gives way.
	maxReturned = 100_000
)

// guard remembers what was given back of each aggregate, so that later events don't
// go past it.
type guard struct {
	mu    sync.Mutex
	lanes map[lane]map[uuid.UUID]returnedEvent
	n     int
}

type returnedEvent struct {
	envelope outbox.Envelope // without its data
	due      time.Time
}

func (g *guard) init() { g.lanes = make(map[lane]map[uuid.UUID]returnedEvent) }

// heldBack reports whether an earlier event of the lane has been given back and is
// still to come. Then this one is as good as given back too, for the wait returned.
func (g *guard) heldBack(key lane, h *held) (wait time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	events := g.lanes[key]
	if len(events) == 0 {
		return 0, false
	}
	now := time.Now()
	for id, r := range events {
		switch {
		case now.Sub(r.due) > overdue:
			g.remove(key, id)
		case compareEvents(r.envelope, h.Envelope) < 0:
			ok = true
			wait = max(wait, r.due.Sub(now))
		}
	}
	g.remove(key, h.Envelope.ID)
	if !ok {
		return 0, false
	}
	// A little later than the one in front, so that it comes first.
	wait = max(wait, 0) + 10*time.Millisecond
	g.add(key, h, now.Add(wait))
	return wait, true
}

// returned notes a message that is given back.
func (g *guard) returned(key lane, h *held, after time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.add(key, h, time.Now().Add(after))
}

// passed notes a message that was handled.
func (g *guard) passed(key lane, h *held) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(key, h.Envelope.ID)
}

func (g *guard) add(key lane, h *held, due time.Time) {
	if h.Unreadable != nil || g.n >= maxReturned {
		return
	}
	if g.lanes[key] == nil {
		g.lanes[key] = make(map[uuid.UUID]returnedEvent)
	}
	if _, has := g.lanes[key][h.Envelope.ID]; !has {
		g.n++
	}
	e := outbox.Envelope{ID: h.Envelope.ID, AggregateVersion: h.Envelope.AggregateVersion}
	g.lanes[key][e.ID] = returnedEvent{envelope: e, due: due}
}

func (g *guard) remove(key lane, id uuid.UUID) {
	if _, has := g.lanes[key][id]; !has {
		return
	}
	g.n--
	delete(g.lanes[key], id)
	if len(g.lanes[key]) == 0 {
		delete(g.lanes, key)
	}
}
