// Package compat tells which changes of an events.yaml break what was published
// before: messages that wait, consumers that are deployed, tables and queues.
package compat

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// Compare returns what breaks when current takes the place of base. What base
// declares as deprecated may go.
func Compare(base, current *spec.Model) diag.List {
	c := &comparison{base: base, current: current, types: map[typePair]*typeFindings{}}
	c.settings()
	for _, ev := range base.Events {
		c.event(ev)
	}
	for _, con := range base.Consumers {
		c.consumer(con)
	}
	c.reusedNames()
	c.addUses()
	return c.problems
}

type comparison struct {
	base, current *spec.Model
	problems      diag.List
	types         map[typePair]*typeFindings // compared already
	pairs         []typePair                 // the same, in order
}

// finding reports a change at a place of the current file, with the place of the base
// where that is known.
func (c *comparison) finding(rule Rule, at, before diag.Pos, message, hint string) {
	d := diag.Diagnostic{Pos: at, Rule: string(rule), Message: message, Hint: hint}
	if !at.IsValid() {
		d.Pos = diag.Pos{File: c.current.File}
	}
	if before.IsValid() {
		d.Related = []diag.Related{{Pos: before, Message: "the base has it here"}}
	}
	c.problems.Add(d)
}

// settings are what the file says of itself.
func (c *comparison) settings() {
	b, n := c.base, c.current
	if b.Service.Text != n.Service.Text {
		c.finding(ServiceChanged, n.Service.Pos, b.Service.Pos,
			fmt.Sprintf("the service %q is now %q: it is the source of every event, and in the default names of streams, topics and queues", b.Service.Text, n.Service.Text),
			acceptHint(ServiceChanged, "keep the name"))
	}
	if b.Outbox.Ordering != n.Outbox.Ordering {
		c.finding(OrderingChanged, n.Outbox.OrderingPos, b.Outbox.OrderingPos,
			fmt.Sprintf("the ordering %s is now %s: the table gets other columns and another index", b.Outbox.Ordering, n.Outbox.Ordering),
			acceptHint(OrderingChanged, "keep it"))
	}
	if was, is := b.Outbox.TablePrefix, n.Outbox.TablePrefix; was.Text != is.Text {
		c.finding(TablePrefixChanged, is.Pos, was.Pos,
			fmt.Sprintf("the table prefix %q is now %q: rows that wait stay in the old tables", was.Text, is.Text),
			acceptHint(TablePrefixChanged, "keep it"))
	}
}

func acceptHint(rule Rule, keep string) string {
	return fmt.Sprintf("%s, or pass --accept %s to outboxgen lock and breaking once the change is prepared", keep, rule)
}

// reusedNames looks for what was published once under a name that is new again.
func (c *comparison) reusedNames() {
	for _, ev := range c.current.Events {
		if before := named(c.base.Retired.Events, ev.Name.Text); before != nil {
			c.finding(EventNameReused, ev.Name.Pos, before.Pos, fmt.Sprintf("an event %q was published once and is retired", ev.Name.Text),
				"give the new one another name: old messages may be replayed")
		}
	}
	for _, con := range c.current.Consumers {
		if before := named(c.base.Retired.Consumers, con.Name.Text); before != nil {
			c.finding(ConsumerNameReused, con.Name.Pos, before.Pos, fmt.Sprintf("a consumer %q was there once and is retired", con.Name.Text),
				"give the new one another name: the dedup rows of the old one would keep events from it")
		}
	}
}

func named(names []spec.Name, text string) *spec.Name {
	if i := slices.IndexFunc(names, func(n spec.Name) bool { return n.Text == text }); i >= 0 {
		return &names[i]
	}
	return nil
}

func eventOf(m *spec.Model, name string) *spec.Event {
	if i := slices.IndexFunc(m.Events, func(e *spec.Event) bool { return e.Name.Text == name }); i >= 0 {
		return m.Events[i]
	}
	return nil
}

func consumerOf(m *spec.Model, name string) *spec.Consumer {
	if i := slices.IndexFunc(m.Consumers, func(c *spec.Consumer) bool { return c.Name.Text == name }); i >= 0 {
		return m.Consumers[i]
	}
	return nil
}

func versionOf(e *spec.Event, number int) *spec.Version {
	if i := slices.IndexFunc(e.Versions, func(v *spec.Version) bool { return v.Number == number }); i >= 0 {
		return e.Versions[i]
	}
	return nil
}

// renamed is a hint for a name that is gone: the new name nearest to it.
func renamed(gone string, come []string, otherwise string) string {
	if near := diag.Nearest(gone, come); near != "" {
		return fmt.Sprintf("did you mean %q? %s", near, otherwise)
	}
	return otherwise
}

// moved says which of the names changed.
func moved(names []movedName) string {
	var parts []string
	for _, n := range names {
		if n.was.Text != n.is.Text {
			parts = append(parts, fmt.Sprintf("%s %s is now %s", n.what, n.was.Text, n.is.Text))
		}
	}
	return strings.Join(parts, ", ")
}

type movedName struct {
	what    string
	was, is spec.Name
}

// movedAt is the place of the first name that changed and is in the file.
func movedAt(names []movedName, otherwise diag.Pos) diag.Pos {
	for _, n := range names {
		if n.was.Text != n.is.Text && n.is.Pos.IsValid() {
			return n.is.Pos
		}
	}
	return otherwise
}
