package outboxtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
)

// otherErrors are errors of a statement that say nothing about a duplicate event, and that leave
// its transaction open.
var otherErrors = []mysqlproxy.ServerError{
	{Number: 1062, State: "23000", Message: "Duplicate entry '1' for key 'other_table.uq_other'"},
	{Number: 1406, State: "22001", Message: "Data too long for column 'other_column' at row 1"},
}

// failing is a statement of a consumer's that is answered with an error.
type failing struct {
	at        eventAt
	consumer  int // its index in the Config
	request   Request
	statement int // which of the handler's, from 1
	number    uint16
	fault     *mysqlproxy.Fault
}

// dedupError has the database answer the insert of the dedup row with other errors.
func (i *injection) dedupError(ctx context.Context) error {
	id, err := i.writeSoundly(ctx)
	if err != nil {
		return err
	}
	var armed []failing
	arm := func(c *consumerActor) {
		for _, e := range otherErrors {
			// The first is taken away by then: each sees the next attempt.
			f := c.proxy.Arm(mysqlproxy.Rule{Action: mysqlproxy.Answer, Match: dedupOf(id), Error: e})
			armed = append(armed, failing{at: eventAt{id, c.Name()}, number: e.Number, fault: f})
		}
	}
	return i.deliver(ctx, arm, func([]*consumerActor) error {
		for _, f := range i.awaitErrors(ctx, armed) {
			i.see("consumer %s saw the error %d, which is no duplicate event", f.at.consumer, f.number)
		}
		return i.settleAndEnd(ctx)
	})
}

// awaitErrors waits until the consumers have seen their errors, and returns those that they saw.
func (i *injection) awaitErrors(ctx context.Context, armed []failing) (seen []failing) {
	for _, f := range armed {
		if !i.v.happened(ctx, f.fault.Done) {
			i.notHappened("consumer %s did not see the error %d in %v: does New use the db that it is given?", f.at.consumer, f.number, i.v.cfg.Patience)
			continue
		}
		i.v.fault(i.Point, i.outcome, f.at.event)
		seen = append(seen, f)
	}
	return seen
}

// maxStatements is how many of a handler's statements are made to fail: the first ones.
const maxStatements = 4

// handlerError has the database answer statements of the handlers with errors: each with
// each error once, and for each an event of its own, so that none fails more often than once.
func (i *injection) handlerError(ctx context.Context) error {
	v := i.v
	for _, name := range v.hist.Consumers {
		if v.statements[name] == 0 {
			i.notHappened("consumer %s sends no statement with the transaction that its handler is given, so that none can fail:"+
				" is its effect made with that tx? (one that is prepared on the pool is not seen)", name)
		}
	}
	var planned []failing
	for n := range min(maxStatements, mostOf(v.statements)) {
		for _, e := range otherErrors {
			if len(planned) > 0 {
				i.newRequest()
			}
			id, err := i.writeSoundly(ctx)
			if err != nil {
				return err
			}
			planned = append(planned, failing{at: eventAt{event: id}, request: i.request, statement: n + 1, number: e.Number})
		}
	}
	var armed []failing
	arm := func(c *consumerActor) {
		for n, f := range planned {
			if f.statement > v.statements[c.Name()] {
				continue
			}
			f.at.consumer, f.consumer = c.Name(), slices.Index(v.hist.Consumers, c.Name())
			f.fault = c.proxy.Arm(mysqlproxy.Rule{
				Action: mysqlproxy.Answer, After: dedupOf(f.at.event), Match: ofHandler, Nth: f.statement, Error: otherErrors[n%len(otherErrors)],
			})
			armed = append(armed, f)
		}
	}
	return i.deliver(ctx, arm, func([]*consumerActor) error {
		seen := i.awaitErrors(ctx, armed)
		if err := i.settle(ctx); err != nil {
			return err
		}
		for _, f := range seen {
			if err := i.judgeHandler(ctx, f); err != nil {
				return err
			}
		}
		return i.end(ctx)
	})
}

func mostOf(counts map[string]int) (most int) {
	for _, n := range counts {
		most = max(most, n)
	}
	return most
}

// judgeHandler looks what a handler made of an error.
func (i *injection) judgeHandler(ctx context.Context, f failing) error {
	var results []string
	i.v.note(func(h *history.History) {
		for _, d := range h.Deliveries {
			if d.EventID == f.at.event && d.Consumer == f.at.consumer {
				results = append(results, d.Result)
			}
		}
	})
	what := fmt.Sprintf("consumer %s, error %d of its statement %d", f.at.consumer, f.number, f.statement)
	switch {
	case slices.Contains(results, "error"):
		i.see("%s: rolled back and delivered again", what)
		return nil
	case slices.Contains(results, "parked"): // its `retry.attempts`, or an outbox.Permanent
		i.see("%s: rolled back, and the event is parked at once", what)
		i.gaveUp[f.at] = true
		return nil
	}
	r := f.request
	r.EventID = f.at.event
	count, err := i.v.effects(ctx, f.consumer, r)
	i.expect(count > 0 || err != nil, problem{
		invariant: "I4",
		text: fmt.Sprintf("consumer %s: the handler got an error from the database and returned nil: the error %d of its statement %d;"+
			" %d effects, and the event counts as applied", f.at.consumer, f.number, f.statement, count),
		hint: "return the error of every statement, so that the dedup row is rolled back and the message comes again;" +
			" 1062 means that it is done already only when it names the constraint that you mean",
	})
	return err
}

// handlerStatements counts what a consumer's handler has sent with the transaction of an event.
func (c *consumerActor) handlerStatements(event uuid.UUID) (n int) {
	for _, statement := range c.proxy.Following(dedupOf(event)) {
		if ofHandler(statement) {
			n++
		}
	}
	return n
}
