package export

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// Markdown is the catalogue for a repository's own pages.
func Markdown(m *spec.Model) []byte {
	var w markdown
	c := newCatalogue(m)
	w.line("<!-- %s -->", header)
	w.part("# Events of %s", c.Service)
	w.part("%s, %s.", count(c.Events, "event"), count(len(c.Consumers), "consumer"))
	w.overview(c)
	for _, a := range c.Aggregates {
		w.part("## Aggregate %s", escape(a.Type))
		for _, e := range a.Events {
			w.event(e)
		}
	}
	if len(c.Types) > 0 {
		w.part("## Types")
	}
	for _, t := range c.Types {
		w.part("### %s", t.Name)
		w.prose(t.Doc)
		w.values("One of", t.Values)
		w.fields(t.Fields)
	}
	if len(c.Consumers) > 0 {
		w.part("## Consumers")
	}
	for _, con := range c.Consumers {
		w.consumer(con)
	}
	return []byte(w.b.String())
}

type markdown struct{ b strings.Builder }

func (w *markdown) line(format string, args ...any) { fmt.Fprintf(&w.b, format+"\n", args...) }

// part begins after an empty line.
func (w *markdown) part(format string, args ...any) { w.line("\n"+format, args...) }

func (w *markdown) prose(doc string) {
	if doc == "" {
		return
	}
	w.line("")
	for line := range strings.SplitSeq(doc, "\n") {
		w.line("%s", escape(strings.TrimSpace(line)))
	}
}

func (w *markdown) deprecated(reason string) {
	if reason != "" {
		w.part("**Deprecated:** %s", escape(reason))
	}
}

func (w *markdown) values(what string, values []string) {
	if len(values) > 0 {
		w.part("%s: `%s`.", what, strings.Join(values, "`, `"))
	}
}

// overview is the flow, as GitHub and others draw it, in words.
func (w *markdown) overview(c catalogue) {
	w.part("| event | what it says | consumers |")
	w.line("|---|---|---|")
	for _, a := range c.Aggregates {
		for _, e := range a.Events {
			w.line("| %s | %s | %s |", code(e.Name), cell(e.Doc), code(e.ConsumedBy...))
		}
	}
}

func (w *markdown) event(e eventView) {
	w.part("### %s", e.Name)
	w.prose(e.Doc)
	w.deprecated(e.Deprecated)
	w.line("")
	w.line("- aggregate: id `%s`, version `%s`", e.ID, e.Version)
	w.line("- NATS: stream `%s`, subject `%s`", e.Broker.Stream.Text, e.Broker.Key.Text)
	w.line("- Kafka: topic `%s`", e.Broker.Topic.Text)
	w.line("- RabbitMQ: exchange `%s`, routing key `%s`", e.Broker.Exchange.Text, e.Broker.Key.Text)
	if len(e.ConsumedBy) > 0 {
		w.line("- consumed by %s", code(e.ConsumedBy...))
	} else {
		w.line("- no consumer of this service")
	}
	for _, v := range e.Versions {
		title := "#### %s version %d"
		if v.Newest {
			title += " (newest)"
		}
		w.part(title, e.Name, v.Number)
		w.prose(v.Doc)
		w.deprecated(v.Deprecated)
		if v.Schema != "" {
			w.part("[JSON Schema](%s)", v.Schema)
		}
		w.fields(v.Fields)
		if v.Example != "" {
			w.part("```json\n%s\n```", v.Example)
		}
	}
}

func (w *markdown) fields(fields []fieldView) {
	if len(fields) == 0 {
		return
	}
	w.part("| field | type | |")
	w.line("|---|---|---|")
	for _, f := range fields {
		name := "`" + f.Name + "`"
		if f.Optional {
			name += " (optional)"
		}
		var notes []string
		if f.PII {
			notes = append(notes, "**personal data**")
		}
		if f.Deprecated != "" {
			notes = append(notes, "**deprecated:** "+cell(f.Deprecated))
		}
		if f.Doc != "" {
			notes = append(notes, cell(f.Doc))
		}
		if len(f.Values) > 0 {
			notes = append(notes, "one of "+code(f.Values...))
		}
		if f.Default != "" {
			notes = append(notes, "in older messages: "+cell(f.Default))
		}
		for i := range len(notes) - 1 {
			notes[i] = strings.TrimSuffix(notes[i], ".") // a semicolon follows
		}
		w.line("| %s | `%s` | %s |", name, f.Type, strings.Join(notes, "; "))
	}
}

func (w *markdown) consumer(c consumerView) {
	w.part("### %s", c.Name)
	w.prose(c.Doc)
	w.deprecated(c.Deprecated)
	w.part("%s %s %s", c.Order, c.Retry, c.Retain)
	w.line("")
	w.line("- handles %s", code(c.Handles...))
	w.line("- queue `%s`, group `%s`", c.Queue, c.Group)
}

// code are names, whose form holds nothing that Markdown knows.
func code(names ...string) string {
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "`, `") + "`"
}

func cell(text string) string { return escape(strings.Join(strings.Fields(text), " ")) }

// Of a line of a text of the user's: what Markdown, its tables and its formulas know
// anywhere, and what makes a list, a rule or a heading at the beginning.
var (
	special   = regexp.MustCompile("[\\\\`*_{}\\[\\]<>#|~&!$]")
	beginning = regexp.MustCompile(`^([-+=:]|[0-9]+[.)])`)
)

// escape keeps a text a text.
func escape(line string) string {
	line = special.ReplaceAllString(line, `\$0`)
	if begin := beginning.FindString(line); begin != "" {
		last := len(begin) - 1
		line = begin[:last] + `\` + line[last:]
	}
	return line
}
