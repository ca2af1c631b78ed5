package compat

import (
	"fmt"
	"slices"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

func (c *comparison) consumer(was *spec.Consumer) {
	is := consumerOf(c.current, was.Name.Text)
	if is == nil {
		c.consumerRemoved(was)
		return
	}
	for _, ev := range was.Handles {
		if ev.Deprecated == "" && !slices.ContainsFunc(is.Handles, func(e *spec.Event) bool { return e.Name.Text == ev.Name.Text }) {
			c.finding(ConsumerHandlesLess, is.Name.Pos, was.Name.Pos, fmt.Sprintf("the consumer %q no longer handles %q", is.Name.Text, ev.Name.Text),
				"its messages still come, and would be parked: deprecate the event first, or handle it and do nothing")
		}
	}
	names := []movedName{
		{"queue", was.Broker.Queue, is.Broker.Queue},
		{"group", was.Broker.Group, is.Broker.Group},
	}
	if text := moved(names); text != "" {
		c.finding(QueueChanged, movedAt(names, is.Name.Pos), was.Name.Pos,
			fmt.Sprintf("the consumer %q reads elsewhere: %s", is.Name.Text, text), acceptHint(QueueChanged, "keep the names under broker:"))
	}
}

// consumerRemoved suspects a rename: of a name that is near, or of the only new
// consumer of the same events.
func (c *comparison) consumerRemoved(was *spec.Consumer) {
	if was.Deprecated != "" {
		return
	}
	const hint = "bring it back with deprecated:, and remove it a release later"
	const rename = "the dedup rows are kept by the name: after a rename every event would be applied again. Keep it, and set go_name for another name in Go"
	var come, alike []string
	for _, con := range c.current.Consumers {
		if consumerOf(c.base, con.Name.Text) != nil {
			continue
		}
		come = append(come, con.Name.Text)
		if sameEvents(con, was) {
			alike = append(alike, con.Name.Text)
		}
	}
	message := fmt.Sprintf("the consumer %q is gone", was.Name.Text)
	switch with := renamed(was.Name.Text, come, rename); {
	case with != rename:
		c.finding(ConsumerRemoved, diag.Pos{}, was.Name.Pos, message, with)
	case len(alike) == 1:
		c.finding(ConsumerRemoved, diag.Pos{}, was.Name.Pos, message, fmt.Sprintf("did you mean %q? %s", alike[0], rename))
	default:
		c.finding(ConsumerRemoved, diag.Pos{}, was.Name.Pos, message, hint)
	}
}

func sameEvents(a, b *spec.Consumer) bool {
	names := func(c *spec.Consumer) []string {
		var names []string
		for _, ev := range c.Handles {
			names = append(names, ev.Name.Text)
		}
		slices.Sort(names)
		return names
	}
	return slices.Equal(names(a), names(b))
}
