package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outboxgen/outboxgen/internal/sample"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// catalogue is what the catalogue shows, in Markdown and in HTML.
type catalogue struct {
	Service    string
	Events     int
	Aggregates []aggregateView // in the order of their first event
	Consumers  []consumerView
	Types      []typeView
}

type aggregateView struct {
	Type   string
	Events []eventView
}

type eventView struct {
	Name, Doc, Deprecated string
	ID, Version           string // the aggregate's fields
	Broker                spec.EventBroker
	ConsumedBy            []string
	Versions              []versionView // the newest first
}

type versionView struct {
	Number          int
	Newest          bool
	Doc, Deprecated string
	Schema          string // name of its JSON Schema, empty when none is written
	Fields          []fieldView
	Example         string // JSON on lines
}

type fieldView struct {
	Name            string // those inside another with a dot between
	Type            string
	Link            string // the type of types: in it, or ""
	Values          []string
	Optional, PII   bool
	Doc, Deprecated string
	Default         string
}

type typeView struct {
	Name, Doc string
	Values    []string
	Fields    []fieldView
}

type consumerView struct {
	Name, Doc, Deprecated string
	Handles               []string
	Retry, Retain, Order  string // sentences
	Queue, Group          string
}

func newCatalogue(m *spec.Model) catalogue {
	c := catalogue{Service: m.Service.Text, Events: len(m.Events)}
	consumers := map[*spec.Event][]string{}
	for _, con := range m.Consumers {
		c.Consumers = append(c.Consumers, newConsumerView(con))
		for _, e := range con.Handles {
			consumers[e] = append(consumers[e], con.Name.Text)
		}
	}
	at := map[string]int{}
	for _, e := range m.Events {
		kind := e.Aggregate.Type.Text
		i, ok := at[kind]
		if !ok {
			i = len(c.Aggregates)
			at[kind] = i
			c.Aggregates = append(c.Aggregates, aggregateView{Type: kind})
		}
		c.Aggregates[i].Events = append(c.Aggregates[i].Events, newEventView(m, e, consumers[e]))
	}
	for _, n := range m.Types {
		c.Types = append(c.Types, typeView{Name: n.Name.Text, Doc: n.Doc, Values: enumValues(n), Fields: fieldViews("", n.Fields)})
	}
	return c
}

func newEventView(m *spec.Model, e *spec.Event, consumers []string) eventView {
	v := eventView{
		Name: e.Name.Text, Doc: e.Doc, Deprecated: e.Deprecated,
		ID: e.Aggregate.ID.Text, Version: e.Aggregate.Version.Text, Broker: e.Broker, ConsumedBy: consumers,
	}
	withSchemas := slices.Contains(m.Exports.Formats, spec.ExportJSONSchema)
	for _, version := range slices.Backward(e.Versions) {
		vv := versionView{
			Number: version.Number, Newest: version == e.Newest(), Doc: version.Doc, Deprecated: version.Deprecated,
			Fields: fieldViews("", version.Fields), Example: example(version),
		}
		if withSchemas {
			vv.Schema = version.SchemaFile(e)
		}
		v.Versions = append(v.Versions, vv)
	}
	return v
}

// example is the fixture on lines; "" for one that is too large, which generate refuses.
func example(v *spec.Version) string {
	text, ok := sample.Payload(v)
	var b bytes.Buffer
	if !ok || json.Indent(&b, []byte(text), "", "  ") != nil {
		return ""
	}
	return b.String()
}

// fieldViews lists fields, and below each those that are declared inside it.
func fieldViews(prefix string, fields []*spec.Field) []fieldView {
	var views []fieldView
	for _, f := range fields {
		v := fieldView{
			Name: prefix + f.Name.Text, Type: f.Type.String(), Optional: f.Optional, PII: f.PII,
			Doc: f.Doc, Deprecated: f.Deprecated,
		}
		if f.Default != nil {
			v.Default = f.Default.JSON
		}
		named := f.Type.Innermost().Named
		inline := named != nil && named.Inline
		switch {
		case inline:
			v.Values = enumValues(named)
		case named != nil:
			v.Link = named.Name.Text
		}
		views = append(views, v)
		if inline {
			views = append(views, fieldViews(v.Name+".", named.Fields)...)
		}
	}
	return views
}

func enumValues(n *spec.Named) []string {
	var values []string
	for _, v := range n.Enum {
		values = append(values, v.Name.Text)
	}
	return values
}

func newConsumerView(c *spec.Consumer) consumerView {
	v := consumerView{
		Name: c.Name.Text, Doc: c.Doc, Deprecated: c.Deprecated, Queue: c.Broker.Queue.Text, Group: c.Broker.Group.Text,
		Retain: "It remembers for " + inWords(c.Retain) + " which events it has handled.",
		Order:  "It handles one event at a time, each within " + inWords(c.Timeout) + ".",
		Retry:  "An event that fails is parked for somebody to look at.",
	}
	for _, e := range c.Handles {
		v.Handles = append(v.Handles, e.Name.Text)
	}
	if c.Concurrency > 1 {
		v.Order = fmt.Sprintf("It handles up to %d events at a time, those of one aggregate one after the other, each within %s.", c.Concurrency, inWords(c.Timeout))
	}
	if c.DropStale {
		v.Order += " It skips an event that is older than what it has applied."
	}
	if r := c.Retry; r.Attempts > 1 {
		v.Retry = fmt.Sprintf("An event that fails is tried %d times in all. The first wait is %s, then twice as long each time, up to %s. After that the event is parked for somebody to look at.",
			r.Attempts, inWords(r.Backoff), inWords(r.MaxBackoff))
	}
	return v
}

// inWords is a length of time as it is said: 720h is 30 days.
func inWords(d time.Duration) string {
	var parts []string
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}, {time.Millisecond, "millisecond"}} {
		n := d / unit.length
		d -= n * unit.length
		switch {
		case n == 1:
			parts = append(parts, "1 "+unit.name)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", n, unit.name))
		}
	}
	return strings.Join(parts, " ")
}

// count is "1 event" or "3 events".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
