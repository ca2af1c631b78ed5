package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/gen/orderevents"
)

// printTable shows what happened, before anything is judged.
func printTable(out *printer, f *facts) {
	cancelled := 0
	for _, o := range f.orders {
		if o.Status == "cancelled" {
			cancelled++
		}
	}
	row := func(name, format string, args ...any) {
		out.say("%-20s %s", name, fmt.Sprintf(format, args...))
	}
	row("orders", "%s, %s of them cancelled later; %s rolled back for want of stock",
		number(len(f.orders)), number(cancelled), number(len(f.answers.refusals)))
	row("requests", "%s orders asked for in %s requests, %s repeats answered with the first's order, %s sent again after a 503",
		number(len(f.answers.orders)+len(f.answers.refusals)), number(f.answers.posts), number(f.answers.repeats), number(f.answers.unsettled))
	row("events by status", "%s", eventsByStatus(f.events))
	row("broker", "%s, %s of them repeats of an event", count(len(f.stream), "message"), number(len(f.stream)-len(distinct(f.stream))))
	out.say("")
	out.say("%-20s %9s %9s %11s %7s %7s %11s  %s", "consumer",
		"attempts", "applied", "duplicates", "parked", "errors", "dedup rows", "effects")
	for _, name := range consumerNames {
		c := f.consumers[name]
		out.say("%-20s %9s %9s %11s %7s %7s %11s  %s", name, number(c.Attempts), number(c.Applied),
			number(c.Duplicates), number(c.Parked), number(c.Errors), number(len(f.dedup[name])), effects(name, f))
	}
}

func eventsByStatus(events []eventRow) string {
	counts := map[string]int{}
	for _, e := range events {
		counts[e.Type+" "+e.State]++
	}
	var parts []string
	for name, n := range counts {
		parts = append(parts, name+" "+number(n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func distinct(stream []streamMessage) map[string]int {
	count := map[string]int{}
	for _, m := range stream {
		count[m.EventID]++
	}
	return count
}

func effects(consumer string, f *facts) string {
	if consumer == orderevents.ConsumerNameNotificationPlanner {
		return number(len(f.jobs)) + " jobs"
	}
	var orders int64
	for _, s := range f.sales {
		orders += s.Orders
	}
	return fmt.Sprintf("%s orders in %d sums", number(orders), len(f.sales))
}

// maxProblems is how many problems of one claim are printed.
const maxProblems = 3

// printVerdicts prints a line a claim, and reports whether all of them passed.
func printVerdicts(out *printer, verdicts []verdict) bool {
	passed := true
	for _, v := range verdicts {
		if len(v.problems) == 0 {
			out.say("PASS  %s (%s)", v.claim, v.figures)
			continue
		}
		passed = false
		out.say("FAIL  %s", v.claim)
		for _, p := range v.problems[:min(len(v.problems), maxProblems)] {
			out.say("        %s", p)
		}
		if more := len(v.problems) - maxProblems; more > 0 {
			out.say("        and %s more", number(more))
		}
	}
	return passed
}
