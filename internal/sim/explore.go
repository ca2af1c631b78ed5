package sim

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/sim/fakemysql"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Case is a small case to go through completely: two relays publish two events.
type Case struct {
	Rows    bool // ordering: none
	OneKey  bool // both events are of one aggregate
	Batch   int  // events a claim
	Batches int  // in flight, of a relay
	Faults  int  // how many may happen
	Courses int  // stop after so many; 0 for none
}

// Exploration is what was gone through.
type Exploration struct {
	Courses  int // runs to their end
	Cut      int // runs that came to a state that was known
	States   int
	Longest  int // choices of a run
	Failures []Course
}

// Course is a run.
type Course struct {
	Choices  []string
	Verdicts []history.Verdict
}

// Explore runs all interleavings of a case at the points of the runtime, with all
// faults there: the process dies, the operation fails, or a lease's time passes
// while everything that stands at a point stays there. A state is gone on from once: the
// database's rows, the broker's messages, and for each relay all that it has done and
// seen, which is what its own state depends on. [Install] must have been called.
func Explore(t *testing.T, c Case) Exploration {
	var out Exploration
	known := map[string]bool{}
	todo := [][]int{nil}
	for len(todo) > 0 && (c.Courses == 0 || out.Courses < c.Courses) {
		prefix := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		e := &explorer{limit: c.Faults, prefix: prefix, known: known}
		var verdicts []history.Verdict
		synctest.Test(t, func(t *testing.T) { verdicts = e.run(t, c) })
		todo = append(todo, e.others...)
		out.Longest = max(out.Longest, len(e.chosen))
		if e.cut {
			out.Cut++
			continue
		}
		out.Courses++
		if failed := history.Failed(verdicts); len(failed) > 0 {
			out.Failures = append(out.Failures, Course{e.told, failed})
			break
		}
	}
	out.States = len(known)
	return out
}

// explorer is one run. It follows the prefix, and then the first choice each time.
type explorer struct {
	limit  int
	prefix []int
	known  map[string]bool

	chosen []int
	told   []string
	others [][]int // prefixes of the runs that choose otherwise
	cut    bool
	faults int
	w      *world
	owners map[string]string // of leases: their roles

	mu     sync.Mutex
	parked []*parked
	seen   map[string]uint64 // by role: what it has done and been answered
	free   bool              // nobody is parked any more
}

// parked is a goroutine at a point.
type parked struct {
	a     *actor
	point fault.Point
	tag   string
	next  chan Action
}

func (p *parked) name() string { return fmt.Sprintf("%s@%s", p.a.role, p.point) }

const goOn Action = "goes on"

// park is passed at the points.
func (e *explorer) park(ctx context.Context, a *actor, p fault.Point) error {
	if a.isDead() {
		return errDead
	}
	e.mu.Lock()
	if e.free {
		e.mu.Unlock()
		return nil
	}
	here := &parked{a, p, fakemysql.TagOf(ctx), make(chan Action)}
	e.parked = append(e.parked, here)
	e.mu.Unlock()
	switch <-here.next {
	case Kill:
		return errDead
	case Error:
		return fault.ErrInjected
	}
	if a.isDead() {
		return errDead
	}
	return nil
}

// choice is what may happen next.
type choice struct {
	p      *parked // nil: time passes
	action Action
}

func (c choice) String() string {
	if c.p == nil {
		return "a lease's time passes"
	}
	return c.p.name() + " " + string(c.action)
}

func (e *explorer) choices() []choice {
	e.mu.Lock()
	defer e.mu.Unlock()
	slices.SortFunc(e.parked, func(a, b *parked) int {
		return strings.Compare(a.name()+a.tag, b.name()+b.tag)
	})
	var out []choice
	for _, p := range e.parked {
		out = append(out, choice{p, goOn})
	}
	if e.faults == e.limit {
		return out
	}
	for _, p := range e.parked {
		out = append(out, choice{p, Kill})
		if !errorless[p.point] {
			out = append(out, choice{p, Error})
		}
	}
	return append(out, choice{nil, Pause})
}

func (e *explorer) take(c choice) {
	e.told = append(e.told, c.String())
	if c.p == nil {
		e.faults++
		e.w.rec.fault(Fault{Role: "clock", Action: Pause})
		time.Sleep(lease + time.Second)
		return
	}
	e.mu.Lock()
	e.parked = slices.DeleteFunc(e.parked, func(p *parked) bool { return p == c.p })
	e.observe(c.p.a.role, string(c.p.point), string(c.action))
	e.mu.Unlock()
	if c.action != goOn {
		e.faults++
		e.w.rec.fault(Fault{Role: c.p.a.role, Point: c.p.point, Action: c.action})
	}
	if c.action == Kill {
		c.p.a.kill()
		e.release(func(p *parked) bool { return p.a == c.p.a })
	}
	c.p.next <- c.action
}

// release lets those that stand at a point and for whom nothing is to be decided go on.
func (e *explorer) release(which func(*parked) bool) {
	e.mu.Lock()
	var all []*parked
	e.parked = slices.DeleteFunc(e.parked, func(p *parked) bool {
		if which(p) {
			all = append(all, p)
		}
		return which(p)
	})
	e.mu.Unlock()
	for _, p := range all {
		p.next <- goOn
	}
}

// observe adds to what a role has seen.
func (e *explorer) observe(role string, what ...string) {
	e.seen[role] = e.w.mix(e.seen[role]+1, what...)
}

// replied is told all replies of the database.
func (e *explorer) replied(op fakemysql.Op, args []string, rows [][]string, affected int64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if op.Name == "KeepRelayAlive" {
		e.owners[args[0]] = op.Client
	}
	what := []string{op.Name, op.Tag, fmt.Sprint(affected, err != nil)}
	for _, row := range rows {
		for _, v := range row {
			if role, ok := e.owners[v]; ok {
				v = role
			}
			if _, err := strconv.Atoi(v); err == nil && len(v) > 3 {
				continue // a time, in microseconds: the state has it in milliseconds
			}
			what = append(what, v)
		}
	}
	e.observe(op.Client, what...)
}

// state names where the run is.
func (e *explorer) state() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%d %d", e.faults, time.Since(e.w.begin).Milliseconds())
	for _, p := range e.parked {
		fmt.Fprintf(&b, " %s%s", p.name(), p.tag)
	}
	for _, role := range relayRoles[:2] {
		fmt.Fprintf(&b, " %x", e.seen[role])
	}
	for _, r := range e.w.server.Rows("outbox_event") {
		fmt.Fprintf(&b, " %d/%d", r.Int("status"), r.Int("attempts"))
	}
	if !e.w.plan.Rows {
		for _, r := range e.w.server.Rows("outbox_lane") {
			if r.Int("lease_version") > 0 {
				fmt.Fprintf(&b, " %s/%d", e.owners[r.Text("lease_owner")], r.Int("lease_version"))
			}
		}
	}
	messages := e.w.broker.Published()
	slices.SortStableFunc(messages, func(a, b outbox.Envelope) int { return strings.Compare(a.AggregateID, b.AggregateID) })
	for _, m := range messages {
		fmt.Fprintf(&b, " %d", e.w.ids[m.ID])
	}
	return b.String()
}

func (e *explorer) run(t *testing.T, c Case) []history.Verdict {
	p := Plan{Seed: 1, Rows: c.Rows, Batch: c.Batch, InFlight: c.Batches}
	for i := range 2 {
		r := Request{Aggregate: int64(i + 1)}
		if c.OneKey {
			r.Aggregate = 1
		}
		p.Requests = append(p.Requests, r)
	}
	w := newWorld(t, p)
	e.w, e.owners, e.seen = w, map[string]string{}, map[string]uint64{}
	w.explorer = e
	e.write(t)
	for _, role := range relayRoles[:2] {
		a := w.newActor(role)
		w.running.Go(func() { defer close(a.ended); w.runRelay(a) })
		time.Sleep(time.Microsecond) // one after the other
		synctest.Wait()
	}
	e.explore()
	return e.finish()
}

// write commits the events.
func (e *explorer) write(t *testing.T) {
	a := e.w.newActor(nobody)
	close(a.ended)
	j := newJournal(e.w, 0)
	for i := range e.w.plan.Requests {
		try := e.w.rec.try(history.Request{ID: requestID(i), EventID: eventID(i)})
		ctx := context.Background() // without an actor it passes no point
		outcome, err := outbox.InTx(ctx, a.db, func(tx *outbox.Tx) error { return j.accept(ctx, tx, i) })
		if outcome != outbox.Committed {
			t.Fatal(err)
		}
		try.told(history.Committed)
	}
}

// explore chooses until both events are settled, and nobody is at a point.
func (e *explorer) explore() {
	const step = 100 * time.Millisecond
	for idle := 0; idle < 600; {
		time.Sleep(100 * time.Microsecond) // requests come to their ends
		synctest.Wait()
		all := e.choices()
		if len(all) == 0 || all[0].p == nil {
			if e.w.published() || e.allDead() {
				return
			}
			idle++
			time.Sleep(step)
			continue
		}
		idle = 0
		n := 0
		if at := len(e.chosen); at < len(e.prefix) {
			n = e.prefix[at]
		} else {
			s := e.state()
			if e.known[s] {
				e.cut = true
				return
			}
			e.known[s] = true
			for other := 1; other < len(all); other++ {
				e.others = append(e.others, append(slices.Clone(e.chosen), other))
			}
		}
		e.chosen = append(e.chosen, n)
		e.take(all[n])
	}
}

func (e *explorer) allDead() bool {
	for _, role := range relayRoles[:2] {
		if e.w.current(role) != nil {
			return false
		}
	}
	return true
}

// finish lets everything end without choices.
func (e *explorer) finish() []history.Verdict {
	w := e.w
	e.mu.Lock()
	e.free = true
	e.mu.Unlock()
	e.release(func(*parked) bool { return true })
	if !e.cut && e.allDead() {
		a := w.newActor(relayRoles[2])
		w.running.Go(func() { defer close(a.ended); w.runRelay(a) })
	}
	if !e.cut {
		w.rec.history.Deadline = deadline
		for begin := time.Now(); !w.published() && time.Since(begin) < deadline; {
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Second) // for a late mark
		w.rec.final()
	}
	w.close()
	if e.cut {
		return nil
	}
	h := w.rec.history
	h.Consumers, h.Answers = nil, nil
	return history.Check(h)
}
