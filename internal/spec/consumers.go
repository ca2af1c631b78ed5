package spec

import (
	"fmt"
	"strings"
	"time"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// defaultRetain is longer than most brokers keep a message.
const defaultRetain = 30 * 24 * time.Hour

func (c *checker) readConsumers(top object) {
	n := c.optional(top, "consumers")
	if n == nil || !c.isMapping(top.vals["consumers"].key, n, "consumers") {
		return
	}
	byPackage := map[string]*Consumer{}
	for _, e := range n.entries {
		con := &Consumer{Name: Name{e.key.text, e.key.pos}, Retain: defaultRetain}
		c.model.Consumers = append(c.model.Consumers, con)
		c.readConsumer(e, con)
		c.checkConsumerPackage(e.key, con, byPackage)
	}
}

func (c *checker) readConsumer(e entry, con *Consumer) {
	what := "the consumer " + quote(e.key.text)
	if c.checkName(e.key, e.key.text, consumerName) {
		con.GoName = goName(e.key.text)
	}
	o, ok := c.object(e.key, e.val, what, "doc", "handles", "retain", "go_name")
	if !ok {
		return
	}
	con.Doc = c.prose(o)
	con.GoName = c.goNameOf(o, con.GoName)
	if con.GoName != "" {
		c.claimNames(e.key, "consumer "+quote(e.key.text),
			"New"+con.GoName, con.GoName+"Handler", "ConsumerName"+con.GoName)
	}
	if n := c.optional(o, "retain"); n != nil {
		con.Retain = c.duration(n, "retain", "leave it out for 720h, the default")
	}
	if n := c.required(o, "handles"); n != nil {
		con.Handles = c.handles(n, what)
	}
}

func (c *checker) handles(n *node, what string) []*Event {
	var events []*Event
	first := map[string]diag.Pos{}
	for _, item := range c.list(n, "handles of "+what, "handles: [order.accepted]") {
		text, ok := c.scalar(item, "an event in handles")
		if !ok {
			continue
		}
		if pos, twice := first[text]; twice {
			c.problem(item, "duplicate-value", fmt.Sprintf("the event %s appears twice in handles", quote(text)), "remove one of them",
				diag.Related{Pos: pos, Message: "first declared here"})
			continue
		}
		first[text] = item.pos
		ev := c.events[text]
		switch {
		case ev != nil:
			events = append(events, ev)
		case c.meant[meantName(text)]: // the event's name was reported, and is right here
		default:
			c.problem(item, "unknown-event", fmt.Sprintf("%s handles the event %s, which is not declared", what, quote(text)),
				c.didYouMean(text, c.eventNames()))
		}
	}
	return events
}

// meantName is the same for all the ways to write an event's name.
func meantName(text string) string { return strings.ReplaceAll(dotted(text), "-", ".") }

func (c *checker) eventNames() []string {
	if !c.isSuggesting() {
		return nil
	}
	var names []string
	for _, ev := range c.model.Events {
		names = append(names, ev.Name.Text)
	}
	return names
}

// checkConsumerPackage makes the name of the stub's package, which is a
// folder too: consumers/notificationplanner.
func (c *checker) checkConsumerPackage(key *node, con *Consumer, byPackage map[string]*Consumer) {
	con.Package = strings.ToLower(con.GoName)
	if con.Package == "" {
		return
	}
	if isGoWord(con.Package) {
		c.problem(key, "bad-name", fmt.Sprintf("the consumer %s would have the Go package %s, which means something to Go itself", quote(key.text), quote(con.Package)), "set go_name")
		return
	}
	if first := byPackage[con.Package]; first != nil && first.GoName != con.GoName {
		c.problem(key, "go-name-clash", fmt.Sprintf("the consumers %s and %s both have the Go package %s", quote(first.Name.Text), quote(key.text), con.Package), "set go_name on one of them",
			diag.Related{Pos: first.Name.Pos, Message: "first declared here"})
		return
	}
	byPackage[con.Package] = con
}
