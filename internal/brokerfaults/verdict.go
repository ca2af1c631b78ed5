package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// expectation is what a fault may do and has to do.
type expectation struct {
	failures []outbox.FailureKind // publishers may return, beside held back
	causes   []cause              // each has to be seen
	reason   string               // that an event may die of; "" when none may die
	dies     string               // the event type that has to die; "" for none
	steady   bool                 // nothing breaks in the middle
	lossy    []string             // holdings that the fault itself took messages from
}

// row is what the outbox says of an event.
type row struct {
	state    string
	attempts int
	kind     string // of its last failure; "" for none
	reason   string
}

// holding is all that a queue, stream or topic has in the end.
type holding struct {
	name string
	not  string // an event type that doesn't go there; "" for none
	ids  []uuid.UUID
}

// history is what a run left behind.
type history struct {
	events   []event
	rows     map[uuid.UUID]row
	holdings []holding
	record   *record
	stats    outbox.RelayStats // of all relays
	evidence map[string]int    // what the script saw; nothing may be 0
}

// tally is what a verdict counted.
type tally struct {
	Published, Dead int
	Messages        int // in the holding that has most
	Duplicates      int // of those, beyond the first of each event
	MostDuplicates  int // as many as unknown outcomes and repeated confirms explain
	Missed          int // events that a lossy holding lacks

	problems []string
}

const mostProblems = 10

func (t *tally) problem(format string, args ...any) {
	if len(t.problems) < mostProblems {
		t.problems = append(t.problems, fmt.Sprintf(format, args...))
	}
}

func (t *tally) err() error {
	if len(t.problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(t.problems, "\n"))
}

const (
	published = "PUBLISHED"
	dead      = "DEAD"
)

// judge compares what the outbox says with what the broker has and what the
// publishers said.
func judge(h *history, want expectation) *tally {
	t := &tally{}
	t.checkConclusive(h, want)
	t.checkRows(h, want)
	t.checkFailures(h, want)
	t.checkStats(h)
	for _, held := range h.holdings {
		t.checkHolding(h, held, slices.Contains(want.lossy, held.name))
	}
	return t
}

// checkConclusive sees to it that the fault happened, and in the middle.
func (t *tally) checkConclusive(h *history, want expectation) {
	r := h.record
	var missing []string
	if !want.steady {
		if r.before <= 0 {
			missing = append(missing, "an event confirmed before the fault")
		}
		if !r.mended || r.after >= len(h.events) {
			missing = append(missing, "an event left when the fault was over")
		}
	}
	for _, c := range want.causes {
		if r.seen[c.name] == 0 {
			missing = append(missing, fmt.Sprintf("%s as %v", c.name, c.kind))
		}
	}
	for what, n := range h.evidence {
		if n == 0 {
			missing = append(missing, what)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		t.problem("inconclusive: the run did not have %s", strings.Join(missing, ", "))
	}
}

// checkRows looks at every event's end.
func (t *tally) checkRows(h *history, want expectation) {
	if len(h.rows) != len(h.events) {
		t.problem("the outbox has %d events, %d were committed", len(h.rows), len(h.events))
	}
	for _, e := range h.events {
		r, ok := h.rows[e.id]
		has := h.of(e.id)
		switch {
		case !ok:
			t.problem("event %s was committed and isn't in the outbox", e.id)
		case r.state == published:
			t.Published++
			if r.attempts != 0 || r.kind != "" {
				t.problem("event %s is published and has %d counted attempts, last failure %q: an outage counts none", e.id, r.attempts, r.reason)
			}
			if has.Confirmed == 0 {
				t.problem("event %s is marked published and was never confirmed", e.id)
			}
			if e.typ == want.dies {
				t.problem("event %s must be dead and is published", e.id)
			}
		case r.state == dead:
			t.Dead++
			if want.reason == "" || r.kind != outbox.FailureRejected.String() || !strings.Contains(r.reason, want.reason) {
				t.problem("event %s is dead of %q (%s)", e.id, r.reason, r.kind)
			}
			if r.attempts != 1 || has.Failures[outbox.FailureRejected] == 0 {
				t.problem("event %s is dead after %d attempts and %d rejections, want 1 of each",
					e.id, r.attempts, has.Failures[outbox.FailureRejected])
			}
		default:
			t.problem("event %s is stuck: %s", e.id, r.state)
		}
	}
}

// checkFailures looks at the kinds.
func (t *tally) checkFailures(h *history, want expectation) {
	for kind, n := range h.record.all.Failures {
		if kind != outbox.FailureHeldBack && !slices.Contains(want.failures, kind) {
			t.problem("%d events were %v, which this fault is not: %s", n, kind, h.record.samples[kind])
		}
	}
}

func (t *tally) checkStats(h *history) {
	s := h.stats
	if int(s.Dead) != t.Dead || s.Retried != 0 || s.OutOfOrder != 0 {
		t.problem("the relays count %d dead, %d retried, %d out of order; want %d, 0, 0", s.Dead, s.Retried, s.OutOfOrder, t.Dead)
	}
	if int(s.Confirmed) != h.record.all.Confirmed || int(s.Unknown) != h.record.all.Failures[outbox.FailureUnknown] {
		t.problem("the relays count %d confirmed, %d unknown; the publishers said %d, %d",
			s.Confirmed, s.Unknown, h.record.all.Confirmed, h.record.all.Failures[outbox.FailureUnknown])
	}
}

// checkHolding looks for what a holding lacks, has too much of, or has in another order.
func (t *tally) checkHolding(h *history, held holding, lossy bool) {
	copies := make(map[uuid.UUID]int, len(held.ids))
	firsts := make([]uuid.UUID, 0, len(held.ids))
	for _, id := range held.ids {
		if copies[id]++; copies[id] == 1 {
			firsts = append(firsts, id)
		}
	}
	explained, known := 0, make(map[uuid.UUID]event, len(h.events))
	for _, e := range h.events {
		known[e.id] = e
		n, has := copies[e.id], h.of(e.id)
		most := has.Confirmed + has.Failures[outbox.FailureUnknown]
		explained += max(0, most-1)
		switch {
		case n > most:
			t.problem("%s has event %s %d times, of which %d are unexplained", held.name, e.id, n, n-most)
		case n > 0 && e.typ == held.not:
			t.problem("%s has event %s, which doesn't go there", held.name, e.id)
		case n > 0 || e.typ == held.not || h.rows[e.id].state != published:
		case lossy && has.early:
			t.Missed++
		default:
			t.problem("event %s is lost: marked published, and %s does not have it", e.id, held.name)
		}
	}
	if lossy && (t.Missed == 0 || len(held.ids) == 0) {
		t.problem("inconclusive: %s lost %d events and has %d, so the fault did not hit it in the middle", held.name, t.Missed, len(held.ids))
	}
	t.checkOrder(held.name, firsts, known)
	if len(held.ids) > t.Messages {
		t.Messages, t.Duplicates, t.MostDuplicates = len(held.ids), len(held.ids)-len(firsts), explained
	}
}

// checkOrder looks at the first message of each event.
func (t *tally) checkOrder(name string, firsts []uuid.UUID, known map[uuid.UUID]event) {
	last := make(map[int64]int64)
	for _, id := range firsts {
		e, ok := known[id]
		if !ok {
			t.problem("%s has event %s, which nobody committed", name, id)
			continue
		}
		if e.version <= last[e.aggregate] {
			t.problem("%s has version %d of aggregate %d behind version %d", name, e.version, e.aggregate, last[e.aggregate])
		}
		last[e.aggregate] = max(last[e.aggregate], e.version)
	}
}

var never answers

// of returns what publishers said of an event.
func (h *history) of(id uuid.UUID) *answers {
	if a := h.record.byEvent[id]; a != nil {
		return a
	}
	return &never
}
