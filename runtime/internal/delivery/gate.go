package delivery

import (
	"log/slog"
	"sync"
	"time"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// How long the gate stays shut: from firstPause, doubled with each try that finds the
// database no better, to maxPause.
const (
	firstPause = 500 * time.Millisecond
	maxPause   = 30 * time.Second

	// ownTries is how often the messages that found the database away try alone.
	// After that any other one may: it may be theirs alone that fails so.
	ownTries = 4
)

// gate is shut while the database can't be worked with. After each wait one message
// may try.
type gate struct {
	log   *slog.Logger
	stats *outbox.SubscribeStats

	mu      sync.Mutex
	shut    bool
	trying  bool
	tries   int // that failed since it was shut
	until   time.Time
	pause   time.Duration
	since   time.Time
	opened  time.Time
	changed chan struct{} // closed, and made anew, with every change
}

func (g *gate) init(log *slog.Logger, stats *outbox.SubscribeStats) {
	g.log, g.stats, g.changed = log, stats, make(chan struct{})
}

// pass waits until the gate is open, or until it is the caller's turn to try; then
// try is true, and the caller calls close or open. own says that the gate was
// shut by this message. ok is false when stop came first.
func (g *gate) pass(stop <-chan struct{}, own bool) (try, ok bool) {
	for {
		select {
		case <-stop:
			return false, false
		default:
		}
		g.mu.Lock()
		if !g.shut {
			g.mu.Unlock()
			return false, true
		}
		wait := time.Until(g.until)
		mayTry := !g.trying && (own || g.tries >= ownTries)
		if mayTry && wait <= 0 {
			g.trying = true
			g.mu.Unlock()
			return true, true
		}
		changed := g.changed
		g.mu.Unlock()
		if !mayTry {
			wait = maxPause // only a change counts
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-stop:
			timer.Stop()
			return false, false
		}
		timer.Stop()
	}
}

// close shuts the gate, or keeps it shut for longer after a try. It reports whether
// others may try now.
func (g *gate) close(cause error, try bool) (others bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.shut && !try: // a handler that had begun before it was shut
		return g.tries >= ownTries
	case !g.shut:
		g.shut, g.tries, g.pause, g.since = true, 0, firstPause, time.Now()
		g.stats.Pauses.Add(1)
		g.log.Warn("the database can't be worked with; consumption pauses, no attempt is counted", "error", cause)
	default:
		g.tries++
		g.pause = min(2*g.pause, maxPause)
	}
	g.trying = false
	g.until = time.Now().Add(g.pause - fault.Jitter(g.pause/4))
	g.notify()
	return g.tries >= ownTries
}

// open opens the gate after a try. The success of a handler that had begun before
// it was shut says nothing.
func (g *gate) open(try bool) {
	if !try {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.trying, g.opened = false, false, time.Now()
	g.log.Info("the database can be worked with again; consumption goes on", "paused_for", time.Since(g.since).Round(time.Millisecond))
	g.notify()
}

// openSince is when the gate was last opened: now while it is shut, zero when it never was.
func (g *gate) openSince() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return time.Now()
	}
	return g.opened
}

func (g *gate) notify() {
	close(g.changed)
	g.changed = make(chan struct{})
}
