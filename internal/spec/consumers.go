package spec

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// The defaults of a consumer. The time to retain is longer than most brokers keep a
// message; the handler's timeout is below RabbitMQ's, NATS' and Kafka's own.
const (
	defaultRetain   = 30 * 24 * time.Hour
	defaultTimeout  = 20 * time.Second
	defaultAttempts = 10
	defaultBackoff  = time.Second
	defaultMaxWait  = 5 * time.Minute
)

func (c *checker) readConsumers(top object) {
	n := c.optional(top, "consumers")
	if n == nil || !c.isMapping(top.vals["consumers"].key, n, "consumers") {
		return
	}
	byPackage := map[string]*Consumer{}
	for _, e := range n.entries {
		con := &Consumer{
			Name: Name{e.key.text, e.key.pos}, Retain: defaultRetain, Concurrency: 1, Timeout: defaultTimeout,
			Retry: Retry{Attempts: defaultAttempts, Backoff: defaultBackoff, MaxBackoff: defaultMaxWait},
		}
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
	o, ok := c.object(e.key, e.val, what, "doc", "handles", "retain", "concurrency", "timeout", "retry", "stale", "broker", "deprecated", "go_name")
	if !ok {
		return
	}
	con.Doc = c.prose(o)
	con.Deprecated = c.deprecated(o)
	con.GoName = c.goNameOf(o, con.GoName)
	if con.GoName != "" {
		c.claimNames(e.key, "consumer "+quote(e.key.text),
			"New"+con.GoName, con.GoName+"Handler", "ConsumerName"+con.GoName)
	}
	if n := c.optional(o, "retain"); n != nil {
		con.Retain = c.duration(n, "retain", "leave it out for 720h, the default")
	}
	if n := c.optional(o, "concurrency"); n != nil {
		con.Concurrency = c.count(n, "concurrency")
	}
	if n := c.optional(o, "timeout"); n != nil {
		con.Timeout = c.duration(n, "timeout", "leave it out for 20s, the default")
	}
	c.retry(o, con, what)
	if n := c.optional(o, "stale"); n != nil {
		con.DropStale = c.stale(n)
	}
	c.consumerBroker(o, con, what)
	if n := c.required(o, "handles"); n != nil {
		con.Handles = c.handles(n, what)
	}
}

func (c *checker) retry(o object, con *Consumer, what string) {
	e, ok := o.vals["retry"]
	if !ok {
		return
	}
	o, ok = c.object(e.key, e.val, "retry of "+what, "attempts", "backoff", "max_backoff")
	if !ok {
		return
	}
	r := &con.Retry
	if n := c.optional(o, "attempts"); n != nil {
		r.Attempts = c.count(n, "retry.attempts")
	}
	if n := c.optional(o, "backoff"); n != nil {
		r.Backoff = c.duration(n, "retry.backoff", "leave it out for 1s, the default")
	}
	if n := c.optional(o, "max_backoff"); n != nil {
		r.MaxBackoff = c.duration(n, "retry.max_backoff", "leave it out for 5m, the default")
	}
	if r.Backoff > r.MaxBackoff && r.MaxBackoff > 0 {
		c.problem(e.key, "bad-duration", fmt.Sprintf("the first wait of %s, %s, is longer than the longest, %s", what, r.Backoff, r.MaxBackoff),
			"raise max_backoff or lower backoff")
	}
}

func (c *checker) stale(n *node) (drop bool) {
	text, ok := c.scalar(n, "stale")
	if ok && text != "apply" && text != "drop" {
		c.problem(n, "unknown-value", "unknown value "+quote(text)+" of stale",
			cmp.Or(c.didYouMean(text, []string{"apply", "drop"}), `use "apply" or "drop"`))
	}
	return text == "drop"
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
	if con.Package == "" || c.lock {
		return
	}
	if isGoWord(con.Package) {
		c.problem(key, "bad-name", fmt.Sprintf("the consumer %s would have the Go package %s, which means something to Go itself", quote(key.text), quote(con.Package)), "set go_name")
		return
	}
	if why := notImportable(con.Package); why != "" {
		c.problem(key, "bad-name", fmt.Sprintf("the consumer %s can't have a Go package of its name: %s", quote(key.text), why), "set go_name")
		return
	}
	if first := byPackage[con.Package]; first != nil && first.GoName != con.GoName {
		c.problem(key, "go-name-clash", fmt.Sprintf("the consumers %s and %s both have the Go package %s", quote(first.Name.Text), quote(key.text), con.Package), "set go_name on one of them",
			diag.Related{Pos: first.Name.Pos, Message: "first declared here"})
		return
	}
	byPackage[con.Package] = con
}
