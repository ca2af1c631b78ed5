package outboxtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/record"
)

// result judges the injection by its part of the history.
func (i *injection) result(h history.History) record.Injection {
	part := partOf(h, i)
	for _, v := range history.Failed(history.Check(part)) {
		if slices.ContainsFunc(i.problems, func(p problem) bool { return p.invariant == v.Invariant }) {
			continue // it is told already, in words of this injection
		}
		i.problems = append(i.problems, problem{
			invariant: v.Invariant, text: fmt.Sprintf("%s, %s: %s", v.Invariant, v.Claim, strings.Join(violations(v), "; ")),
		})
	}
	for _, p := range part.Parked {
		if at := (eventAt{p.EventID, p.Consumer}); !i.gaveUp[at] {
			i.problems = append(i.problems, problem{
				text:   fmt.Sprintf("consumer %s gave up on the event and parked it: its handler fails without any fault", p.Consumer),
				detail: "its reason: " + i.v.parked[at],
				hint:   "Verify breaks a handler only when it succeeds without a fault",
			})
		}
	}
	for _, name := range part.Consumers {
		if i.plan.Redelivery && !slices.ContainsFunc(part.Deliveries, func(d history.Delivery) bool { return d.Consumer == name && d.Result == "duplicate" }) {
			i.notHappened("consumer %s absorbed no repeat of the message", name)
		}
	}
	if len(i.problems)+len(i.missing) == 0 { // otherwise it is told already why
		i.missing = history.Inconclusive(part, i.plan)
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
		for _, p := range i.problems {
			out.Observed = append(out.Observed, p.text)
		}
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
