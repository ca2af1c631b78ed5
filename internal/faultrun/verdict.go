package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// tally is what the broker's log shows.
type tally struct {
	Events   int // confirmed at least once
	Repeats  int // confirmations of what was confirmed before
	Rejected int // messages that were
	Failed   int
	Lost     int // confirmations whose reply was lost
	AfterEnd int // messages of events that had been rejected, or failed as often as they may

	problems []string
}

const mostProblems = 10

func (t *tally) problem(format string, args ...any) {
	if len(t.problems) < mostProblems {
		t.problems = append(t.problems, fmt.Sprintf(format, args...))
	}
}

// err has the problems.
func (t *tally) err() error {
	if len(t.problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(t.problems, "\n"))
}

// progress is how far an aggregate has come at the broker.
type progress struct {
	over   int64          // the last version of which, and of all before, nothing new can come
	ended  map[int64]bool // later versions
	failed map[int64]int  // how often
}

// readLog checks that the first confirmation of each event came when the broker
// had confirmed all earlier events of the aggregate, or rejected them, or failed
// them as often as an event may fail.
//
// A relay that was paused just before it sends, for longer than its lease, may
// send an event that another relay has made dead since. No event of the script is
// confirmed after that, so that it shows as AfterEnd and never as a wrong order.
func readLog(log []arrival) *tally {
	t := &tally{}
	aggregates := map[string]*progress{}
	seen := map[uuid.UUID]bool{}
	for i := range log {
		a := &log[i]
		p := aggregates[a.Aggregate]
		if p == nil {
			p = &progress{ended: map[int64]bool{}, failed: map[int64]int{}}
			aggregates[a.Aggregate] = p
		}
		isOver := a.Version <= p.over || p.ended[a.Version]
		switch {
		case a.answer.accepts() && seen[a.ID]:
			t.Repeats++
		case a.answer.accepts():
			seen[a.ID] = true
			t.Events++
			if a.Version != p.over+1 {
				t.problem("aggregate %s: version %d was confirmed when the last one that was over was %d",
					a.Aggregate, a.Version, p.over)
			}
			p.end(a.Version)
		case isOver:
			t.AfterEnd++
		}
		switch a.answer {
		case lost:
			t.Lost++
		case rejected:
			t.Rejected++
			p.end(a.Version)
		case failed:
			t.Failed++
			if p.failed[a.Version]++; p.failed[a.Version] >= maxAttempts {
				p.end(a.Version)
			}
		}
	}
	return t
}

func (p *progress) end(version int64) {
	if version <= p.over {
		return
	}
	p.ended[version] = true
	for p.ended[p.over+1] {
		p.over++
		delete(p.ended, p.over)
	}
}

// checkTable compares the outbox, in the end, with the events' fates and with what
// the broker confirmed.
func (t *tally) checkTable(ctx context.Context, db *outbox.DB, log []arrival, fate func(uuid.UUID) fate, want int) (dead int, err error) {
	has := make(map[string]bool, len(log))
	for i := range log {
		if log[i].answer.accepts() {
			has[log[i].ID.String()] = true
		}
	}
	rows, err := db.QueryContext(ctx, "SELECT event_id, status FROM outbox_event")
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	const published, isDead = 2, 3
	n := 0
	for ; rows.Next(); n++ {
		var key string
		var status int
		if err := rows.Scan(&key, &status); err != nil {
			return 0, err
		}
		id, err := uuid.Parse(key)
		if err != nil {
			return 0, err
		}
		dies := fate(id).dies()
		if status == isDead {
			dead++
		}
		switch {
		case dies && status != isDead:
			t.problem("event %s must be dead and has status %d", key, status)
		case !dies && status != published:
			t.problem("event %s must be published and has status %d", key, status)
		case !dies && !has[key]:
			t.problem("event %s is marked published and the broker never confirmed it", key)
		case dies && has[key]:
			t.problem("event %s is dead and was confirmed", key)
		}
	}
	if n != want {
		t.problem("the outbox has %d events, %d were committed", n, want)
	}
	return dead, rows.Err()
}
