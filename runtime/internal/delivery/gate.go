package delivery

import (
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// How long the gate stays shut: from firstPause, doubled with each try that finds the
// database no better, to maxPause.
const (
	firstPause = 500 * time.Millisecond
	maxPause   = 30 * time.Second
)

// gate is shut while the database can't be worked with. After each wait one message
// may try.
type gate struct {
	log   *slog.Logger
	stats *outbox.SubscribeStats

	mu      sync.Mutex
	shut    bool
	trying  bool
	until   time.Time
	pause   time.Duration
	since   time.Time
	changed chan struct{} // closed, and made anew, with every change
}

func (g *gate) init(log *slog.Logger, stats *outbox.SubscribeStats) {
	g.log, g.stats, g.changed = log, stats, make(chan struct{})
}

// pass waits until the gate is open or it is the caller's turn to try, and reports
// false when stop came first.
func (g *gate) pass(stop <-chan struct{}) bool {
	for {
		g.mu.Lock()
		if !g.shut {
			g.mu.Unlock()
			return true
		}
		wait := time.Until(g.until)
		if !g.trying && wait <= 0 {
			g.trying = true
			g.mu.Unlock()
			return true
		}
		changed := g.changed
		if g.trying {
			wait = maxPause
		}
		g.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-stop:
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}

// close shuts the gate, or keeps it shut for longer.
func (g *gate) close(cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut && !g.trying {
		return // a handler that had begun before it was shut
	}
	if !g.shut {
		g.shut, g.pause, g.since = true, firstPause, time.Now()
		g.stats.Pauses.Add(1)
		g.log.Warn("the database can't be worked with; consumption pauses, no attempt is counted", "error", cause)
	} else {
		g.pause = min(2*g.pause, maxPause)
	}
	g.trying = false
	g.until = time.Now().Add(g.pause - rand.N(g.pause/4+1))
	g.notify()
}

// open opens the gate.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		return
	}
	g.shut, g.trying = false, false
	g.log.Info("the database can be worked with again; consumption goes on", "paused_for", time.Since(g.since).Round(time.Millisecond))
	g.notify()
}

func (g *gate) notify() {
	close(g.changed)
	g.changed = make(chan struct{})
}
