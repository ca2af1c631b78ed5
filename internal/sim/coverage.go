package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/internal/history"
)

// Coverage adds up what happened in runs. Its methods may be called from any goroutine.
type Coverage struct {
	mu     sync.Mutex
	Runs   int
	Faults map[string]map[string]int // by place and outcome
	Counts map[string]int
}

// The counts. In enough runs each of them is above 0, or the runs prove little.
const (
	unknowns   = "writers told unknown"
	reconciles = "unknowns settled by Reconcile"
	repeats    = "events published again"
	refusals   = "marks refused, since the lease was lost"
	duplicates = "redeliveries absorbed"
	failures   = "attempts of consumers that failed"
	buried     = "events buried"
	parkings   = "events parked"
	deadlocks  = "deadlocks"
	waits      = "lock waits"
)

var allCounts = []string{unknowns, reconciles, repeats, refusals, duplicates, failures, buried, parkings, deadlocks, waits}

// Add adds a run.
func (c *Coverage) Add(r Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Counts == nil {
		c.Faults, c.Counts = map[string]map[string]int{}, map[string]int{}
	}
	c.Runs++
	for _, f := range r.History.Faults {
		if c.Faults[f.Point] == nil {
			c.Faults[f.Point] = map[string]int{}
		}
		c.Faults[f.Point][f.Outcome]++
	}
	c.count(r.History)
	c.Counts[deadlocks] += r.Deadlocks
	c.Counts[waits] += r.LockWaits
}

func (c *Coverage) count(h history.History) {
	for _, q := range h.Requests {
		if q.Outcome == history.Unknown {
			c.Counts[unknowns]++
			if q.Reconciled != nil {
				c.Counts[reconciles]++
			}
		}
	}
	seen := make(map[uuid.UUID]bool, len(h.Messages))
	for _, m := range h.Messages {
		if seen[m.EventID] {
			c.Counts[repeats]++
		}
		seen[m.EventID] = true
	}
	for _, m := range h.Marks {
		if !m.Changed {
			c.Counts[refusals]++
		}
	}
	for _, d := range h.Deliveries {
		switch d.Result {
		case "duplicate":
			c.Counts[duplicates]++
		case "error":
			c.Counts[failures]++
		}
	}
	for _, e := range h.Events {
		if e.Status == history.StatusDead {
			c.Counts[buried]++
		}
	}
	c.Counts[parkings] += len(h.Parked)
}

// Empty are the points and actions that never met, and the counts that are 0.
func (c *Coverage) Empty() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, p := range fault.Points {
		for _, a := range PointActions(p) {
			if c.Faults[string(p)][string(a)] == 0 {
				out = append(out, fmt.Sprintf("%s: %s", p, a))
			}
		}
	}
	for _, name := range allCounts {
		if c.Counts[name] == 0 {
			out = append(out, name)
		}
	}
	return out
}

func (c *Coverage) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	places := slices.SortedFunc(maps.Keys(c.Faults), func(a, b string) int {
		return strings.Compare(fmt.Sprintf("%d%4s", len(a), a), fmt.Sprintf("%d%4s", len(b), b))
	})
	for _, place := range places {
		fmt.Fprintf(&b, "%-24s", place)
		for _, outcome := range slices.Sorted(maps.Keys(c.Faults[place])) {
			fmt.Fprintf(&b, " %s %d;", outcome, c.Faults[place][outcome])
		}
		b.WriteByte('\n')
	}
	for _, name := range allCounts {
		fmt.Fprintf(&b, "%d %s\n", c.Counts[name], name)
	}
	return b.String()
}
