package outboxtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// injection is one fault, and what it did to the event of one request.
type injection struct {
	step
	v       *verification
	plan    history.Plan
	request Request

	// Its part of the history.
	before   map[uuid.UUID]bool // the events that were there at its beginning
	events   []uuid.UUID        // those that came
	requests []string           // their ids
	from, to int                // its faults

	observed []string
	problems []problem
	missing  []string         // what did not happen
	gaveUp   map[eventAt]bool // parked by consumers that may do so here
	stuck    bool             // not everything has come to its end
}

// problem is something that must not be.
type problem struct {
	invariant string // that it violates; none if it is of this injection alone
	text      string
	detail    string // for the test's output alone, since it may quote an error
	hint      string // where to look. Defaults to that of the invariant
}

// inject begins an injection with a request of its own.
func (v *verification) inject(ctx context.Context, s step) (*injection, error) {
	known, err := v.known(ctx)
	if err != nil {
		return nil, err
	}
	i := &injection{step: s, v: v, plan: s.Plan, before: known, gaveUp: map[eventAt]bool{}}
	if s.outcome != noFault {
		i.plan.Faults = []history.Fault{{Point: string(s.Point), Outcome: s.outcome}}
	}
	v.note(func(h *history.History) { i.from = len(h.Faults) })
	i.newRequest()
	v.injections = append(v.injections, i)
	return i, nil
}

// newRequest gives the injection another request.
func (i *injection) newRequest() {
	v := i.v
	i.request = Request{ID: uuid.NewString(), Number: int64(len(v.requests) + 1), EventID: outbox.NewEventID()}
	v.requests = append(v.requests, i.request)
	i.requests = append(i.requests, i.request.ID)
}

// end ends the injection when everything has healed.
func (i *injection) end(ctx context.Context) error {
	known, err := i.v.known(ctx)
	i.events = without(known, i.before)
	i.v.note(func(h *history.History) { i.to = len(h.Faults) })
	return err
}

func (i *injection) see(format string, args ...any) {
	i.observed = append(i.observed, fmt.Sprintf(format, args...))
}

// expect notes what was seen, and that it should not have been unless ok.
func (i *injection) expect(ok bool, p problem) {
	if ok {
		i.see("%s", p.text)
	} else {
		i.problems = append(i.problems, p) // the record has them, too
	}
}

// notHappened notes that the injection has shown nothing.
func (i *injection) notHappened(format string, args ...any) {
	i.missing = append(i.missing, fmt.Sprintf(format, args...))
}

// write lets a writer do the request, and notes its answer.
func (i *injection) write(ctx context.Context, a *actor) (outbox.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, i.v.cfg.Patience)
	defer cancel()
	outcome, err := i.v.cfg.Write(ctx, a.db, i.request)
	if err != nil {
		i.v.log.logger().Warn("write", "error", err)
	}
	if (err == nil) != (outcome == outbox.Committed) {
		i.problems = append(i.problems, problem{
			text: fmt.Sprintf("Write returned %v and the error is nil: %v; it must be nil exactly when the outcome is Committed", outcome, err == nil),
			hint: "return both as outbox.InTx returns them",
		})
	}
	a.v.checkPool(a.name, a.db) // before ctx ends, which would end a transaction that was forgotten
	told := history.Outcome(outcome.String())
	i.v.note(func(h *history.History) {
		h.Requests = append(h.Requests, history.Request{ID: i.request.ID, EventID: i.request.EventID, Outcome: told})
	})
	return outcome, err
}

// writeSoundly lets a writer without faults do the request, and returns the event's id.
func (i *injection) writeSoundly(ctx context.Context) (uuid.UUID, error) {
	a, err := i.v.newActor(ctx, "writer")
	if err != nil {
		return uuid.Nil, err
	}
	defer a.stop()
	return i.writeAlive(ctx, a)
}

func (i *injection) writeAlive(ctx context.Context, a *actor) (uuid.UUID, error) {
	outcome, err := i.write(ctx, a)
	if outcome != outbox.Committed {
		why := "without an error"
		if err != nil {
			why = i.v.shown(err)
		}
		return uuid.Nil, fmt.Errorf("injection %s: Write of a request, without any fault till then, returned %v: %s", i.ID, outcome, why)
	}
	if err := i.checkEvent(ctx); err != nil {
		return uuid.Nil, err
	}
	id, _, err := i.v.eventOf(ctx, i.request)
	return id, err
}

// checkEvent looks that the event can be judged: every consumer must handle it.
func (i *injection) checkEvent(ctx context.Context) error {
	id, _, err := i.v.eventOf(ctx, i.request)
	if err != nil {
		return err
	}
	events, err := storedEvents(ctx, i.v.db, Filter{EventID: id})
	if err != nil || id == uuid.Nil || len(events) == 0 {
		return err // the invariants tell
	}
	for n, c := range i.v.cfg.Consumers {
		if h := c.New(i.v.db); !slices.Contains(h.EventTypes(), events[0].Type) {
			return fmt.Errorf("consumer %s, Consumers[%d], doesn't handle %s, which Write writes", h.Name(), n, events[0].Type)
		}
	}
	return nil
}

// repeat does the request once more, as a client would who knows nothing of its end.
func (i *injection) repeat(ctx context.Context) error {
	a, err := i.v.newActor(ctx, "writer")
	if err != nil {
		return err
	}
	defer a.stop()
	outcome, _ := i.write(ctx, a)
	i.see("the request was repeated: %v", outcome)
	_, rows, err := i.v.eventOf(ctx, i.request)
	i.expect(rows == 1, problem{
		text: fmt.Sprintf("%d business rows of the request after its repeat", rows),
		hint: "Write has to find out whether the request is done already: give its id a unique key",
	})
	return err
}
