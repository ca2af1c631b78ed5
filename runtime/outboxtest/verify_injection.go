package outboxtest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/record"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// injection is one fault, and what it did to the event of one request.
type injection struct {
	record.Required
	v       *verification
	outcome string
	plan    history.Plan
	request Request

	// Its part of the history.
	before   map[uuid.UUID]bool // the events that were there at its beginning
	events   []uuid.UUID        // those that came
	requests []string           // their ids
	from, to int                // its faults

	observed []string
	problems []string
	missing  []string // what did not happen
}

// inject begins an injection with a request of its own.
func (v *verification) inject(ctx context.Context, what record.Required, outcome string) (*injection, error) {
	known, err := v.known(ctx)
	if err != nil {
		return nil, err
	}
	i := &injection{Required: what, v: v, outcome: outcome, plan: what.Plan, before: known}
	i.plan.Faults = []history.Fault{{Point: string(what.Point), Outcome: outcome}}
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

func required(id string) record.Required {
	r, _ := record.RequiredInjection(id) // the ids are constants
	return r
}

func (i *injection) see(format string, args ...any) {
	i.observed = append(i.observed, fmt.Sprintf(format, args...))
}

// expect notes what was seen, and that it should not have been unless ok.
func (i *injection) expect(ok bool, format string, args ...any) {
	i.see(format, args...)
	if !ok {
		i.problems = append(i.problems, fmt.Sprintf(format, args...))
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
		i.expect(false, "Write returned %v and the error is nil: %v; it must be nil exactly when the outcome is Committed", outcome, err == nil)
	}
	told := history.Outcome(outcome.String())
	i.v.note(func(h *history.History) {
		h.Requests = append(h.Requests, history.Request{ID: i.request.ID, EventID: i.request.EventID, Outcome: told})
	})
	return outcome, err
}

// writeSoundly lets a writer without faults do the request.
func (i *injection) writeSoundly(ctx context.Context) error {
	a, err := i.v.newActor(ctx, "writer")
	if err != nil {
		return err
	}
	defer a.stop()
	if outcome, err := i.write(ctx, a); outcome != outbox.Committed {
		return fmt.Errorf("injection %s: Write of a request without any fault: %v: %w", i.ID, outcome, err)
	}
	return i.checkEvent(ctx)
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
	i.expect(rows == 1, "%d business rows of the request after its repeat", rows)
	return err
}

// heal runs a relay and all consumers until everything has come to its end, and ends the
// injection.
func (i *injection) heal(ctx context.Context) error {
	consumers, err := i.startConsumers(ctx, func(*consumerActor) {})
	defer func() { stopAll(consumers) }()
	if err != nil {
		return err
	}
	relay, err := i.v.newRelay(ctx, "relay "+i.ID)
	if err != nil {
		return err
	}
	defer relay.stop()
	if err := relay.start(); err != nil {
		return err
	}
	if err := i.settle(ctx); err != nil {
		return err
	}
	return i.end(ctx)
}

func (i *injection) startConsumers(ctx context.Context, arm func(*consumerActor)) (started []*consumerActor, err error) {
	for _, c := range i.v.cfg.Consumers {
		a, err := i.v.newConsumer(ctx, c)
		if err != nil {
			return started, err
		}
		started = append(started, a)
		arm(a)
	}
	for _, a := range started {
		a.start()
	}
	return started, nil
}

func stopAll(consumers []*consumerActor) {
	for _, c := range consumers {
		c.cancel()
	}
	for _, c := range consumers {
		c.stop()
	}
}

// settle waits until the injection's events are published and handled.
func (i *injection) settle(ctx context.Context) error {
	var failure error
	if !i.v.await(ctx, func() bool {
		done, err := i.settled(ctx)
		failure = err
		return done
	}) && failure == nil {
		i.see("after %v not everything had come to its end", i.v.cfg.Patience)
		i.v.unsettled++
	}
	return failure
}

// settled reports whether the injection's events are published, or dead, and every consumer
// is done with those that are published.
func (i *injection) settled(ctx context.Context) (bool, error) {
	statuses, err := i.v.statuses(ctx)
	if err != nil {
		return false, err
	}
	done, err := i.v.consumerRows(ctx, consumedTable)
	if err != nil {
		return false, err
	}
	for id, status := range statuses {
		if i.before[id] || status == history.StatusDead {
			continue
		}
		if status != history.StatusPublished {
			return false, nil
		}
		for _, name := range i.v.hist.Consumers {
			if !slices.Contains(done, eventAt{id, name}) || i.v.broker != nil && i.v.broker.unackedOf(name, id) {
				return false, nil
			}
		}
	}
	return true, nil
}

// result judges the injection by its part of the history.
func (i *injection) result(h history.History) record.Injection {
	part := partOf(h, i)
	for _, v := range history.Failed(history.Check(part)) {
		i.problems = append(i.problems, fmt.Sprintf("%s, %s: %s", v.Invariant, v.Claim, strings.Join(violations(v), "; ")))
	}
	for _, p := range part.Parked {
		i.problems = append(i.problems, fmt.Sprintf("consumer %s gave up on the event and parked it: its handler fails without any fault", p.Consumer))
	}
	i.missing = append(i.missing, history.Inconclusive(part, i.plan)...)
	for _, name := range part.Consumers {
		if i.plan.Redelivery && !slices.ContainsFunc(part.Deliveries, func(d history.Delivery) bool { return d.Consumer == name && d.Result == "duplicate" }) {
			i.notHappened("consumer %s absorbed no repeat of the message", name)
		}
	}
	out := record.Injection{
		ID: i.ID, Title: i.Title, Point: string(i.Point), Outcome: i.outcome, Expected: i.Expected, Result: record.Pass,
		Database: strings.ToLower(i.v.product), Broker: i.v.cfg.Broker,
		Observed: append(i.observed, countsOf(part)...),
	}
	for _, e := range part.Written {
		out.Event = record.Event{RequestID: i.request.ID, EventID: e.EventID, Aggregate: e.Aggregate, Type: e.Type, Version: e.Version}
	}
	switch {
	case len(i.problems) > 0:
		out.Result = record.Fail
		out.Observed = append(out.Observed, i.problems...)
	case len(i.missing) > 0:
		out.Result = record.Inconclusive
		out.Observed = append(out.Observed, i.missing...)
	}
	return out
}

func countsOf(h history.History) []string {
	c := record.CountsOf(h)
	return []string{fmt.Sprintf("%d business rows, %d messages, %d calls of handlers, %d duplicates absorbed, %d dedup rows, %d effects",
		c.CommittedRequests, c.BrokerMessages, c.HandleAttempts, c.Duplicates, c.DedupRows, c.Effects)}
}

// violations are what a verdict lists after its counts.
func violations(v history.Verdict) []string {
	i := slices.IndexFunc(v.Evidence, func(s string) bool { return strings.HasSuffix(s, " violations") })
	return v.Evidence[i+1:]
}
