package compat

import (
	"fmt"
	"slices"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

func (c *comparison) event(was *spec.Event) {
	is := eventOf(c.current, was.Name.Text)
	if is == nil {
		c.eventRemoved(was)
		return
	}
	c.aggregate(was, is)
	c.route(was, is)
	for _, v := range was.Versions {
		c.version(was, is, v)
	}
	c.upcasts(was, is)
	c.newVersions(was, is)
	c.reserved(was, is)
}

func (c *comparison) eventRemoved(was *spec.Event) {
	if was.Deprecated != "" {
		return
	}
	var come []string
	for _, ev := range c.current.Events {
		if eventOf(c.base, ev.Name.Text) == nil {
			come = append(come, ev.Name.Text)
		}
	}
	c.finding(EventRemoved, diag.Pos{}, was.Name.Pos, fmt.Sprintf("the event %q is gone", was.Name.Text),
		renamed(was.Name.Text, come, "bring it back with deprecated:, and remove it a release later"))
}

func (c *comparison) aggregate(was, is *spec.Event) {
	for _, part := range []movedName{
		{"type", was.Aggregate.Type, is.Aggregate.Type},
		{"id", was.Aggregate.ID, is.Aggregate.ID},
		{"version", was.Aggregate.Version, is.Aggregate.Version},
	} {
		if part.was.Text != part.is.Text {
			c.finding(AggregateChanged, part.is.Pos, part.was.Pos,
				fmt.Sprintf("the aggregate's %s of %q was %q and is %q", part.what, is.Name.Text, part.was.Text, part.is.Text),
				"order and dedup go by it: write a new event beside this one")
		}
	}
}

func (c *comparison) route(was, is *spec.Event) {
	names := []movedName{
		{"stream", was.Broker.Stream, is.Broker.Stream},
		{"exchange", was.Broker.Exchange, is.Broker.Exchange},
		{"topic", was.Broker.Topic, is.Broker.Topic},
		{"key", was.Broker.Key, is.Broker.Key},
	}
	if text := moved(names); text != "" {
		c.finding(RouteChanged, movedAt(names, is.Name.Pos), was.Name.Pos,
			fmt.Sprintf("the event %q goes elsewhere: %s", is.Name.Text, text), acceptHint(RouteChanged, "keep the names under broker:"))
	}
}

func (c *comparison) version(was, is *spec.Event, v *spec.Version) {
	now := versionOf(is, v.Number)
	switch {
	case now != nil:
		c.fields(where{event: is, version: now, before: v}, v.Fields, now.Fields, now.Pos)
	case v == was.Newest():
		c.finding(VersionRemoved, is.Name.Pos, v.Pos, fmt.Sprintf("version %d of %q is gone, the newest that was published", v.Number, was.Name.Text),
			"bring it back: a version can only go after a newer one has replaced it")
	case v.Deprecated == "":
		c.finding(VersionRemoved, is.Name.Pos, v.Pos, fmt.Sprintf("version %d of %q is gone", v.Number, was.Name.Text),
			"bring it back with deprecated:, and remove it a release later")
	}
}

// newVersions looks at numbers: a new version has one that was never used.
func (c *comparison) newVersions(was, is *spec.Event) {
	newest := was.Newest()
	for _, v := range is.Versions {
		if versionOf(was, v.Number) != nil {
			continue
		}
		hint := fmt.Sprintf("give it the number %d", newest.Number+1)
		switch {
		case slices.Contains(was.Retired, v.Number):
			c.finding(VersionNumberReused, v.Pos, was.Name.Pos, fmt.Sprintf("a version %d of %q was published once and is retired", v.Number, is.Name.Text), hint)
		case v.Number < newest.Number:
			c.finding(VersionNumberReused, v.Pos, newest.Pos, fmt.Sprintf("version %d of %q is new and comes before version %d, which is published", v.Number, is.Name.Text, newest.Number), hint)
		}
	}
}

// reserved sees that a reserved name stays so for every version that it was reserved
// for.
func (c *comparison) reserved(was, is *spec.Event) {
	for _, v := range was.Versions {
		since := max(v.Number, is.Versions[0].Number)
		if since > is.Newest().Number { // the version itself is gone: reported
			continue
		}
		for _, name := range v.Reserved {
			if !isReserved(is, name.Text, since) {
				c.finding(ReservedRemoved, is.Name.Pos, name.Pos, fmt.Sprintf("the name %q of %q is reserved no longer", name.Text, is.Name.Text),
					fmt.Sprintf("add reserved: [%s] to version %d", name.Text, since))
			}
		}
	}
}

func isReserved(e *spec.Event, name string, since int) bool {
	for _, v := range e.Versions {
		if v.Number <= since && named(v.Reserved, name) != nil {
			return true
		}
	}
	return false
}
