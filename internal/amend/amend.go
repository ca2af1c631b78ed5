// Package amend adds events and consumers to the text of an events.yaml. What is
// there stays as it is, byte by byte: comments, order and layout.
package amend

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// Refusal is why a file is left as it is: it is written in a form that a text can't be
// put into, or a name doesn't fit.
type Refusal struct{ Message, Hint string }

func (r *Refusal) Error() string { return r.Message }

// Event is one to add.
type Event struct {
	Name      string
	Aggregate string // its type. Defaults to the first word of the name
	Consumer  string // handles the event too; added if it isn't there. May be empty
}

// AddEvent adds an event, and to a consumer's handles if one is named. src is in
// order, and model what it says.
func AddEvent(src []byte, model *spec.Model, e Event) ([]byte, error) {
	if err := checkName("event", e.Name, spec.RepairEvent(e.Name)); err != nil {
		return nil, err
	}
	for _, have := range model.Events {
		if have.Name.Text == e.Name {
			return nil, exists("event", have.Name)
		}
	}
	if e.Aggregate == "" {
		e.Aggregate = spec.RepairAggregateType(strings.FieldsFunc(e.Name, func(r rune) bool { return r == '.' || r == '-' })[0])
	} else if err := checkName("aggregate", e.Aggregate, spec.RepairAggregateType(e.Aggregate)); err != nil {
		return nil, err
	}
	isNew := e.Consumer != "" && consumerOf(model, e.Consumer) == nil
	if isNew {
		if err := checkName("consumer", e.Consumer, spec.RepairConsumer(e.Consumer)); err != nil {
			return nil, err
		}
	}
	out, err := addTo(src, "events", eventText(model, e))
	if err != nil || e.Consumer == "" {
		return checked(out, err, func(m *spec.Model) bool { return hasEvent(m, e.Name) })
	}
	if isNew {
		out, err = addTo(out, "consumers", consumerText(e.Consumer, []string{e.Name}))
	} else {
		out, err = addToHandles(out, e.Consumer, e.Name)
	}
	return checked(out, err, func(m *spec.Model) bool { return hasEvent(m, e.Name) && handles(m, e.Consumer, e.Name) })
}

// AddConsumer adds a consumer of events that are declared.
func AddConsumer(src []byte, model *spec.Model, name string, events []string) ([]byte, error) {
	if err := checkName("consumer", name, spec.RepairConsumer(name)); err != nil {
		return nil, err
	}
	if have := consumerOf(model, name); have != nil {
		return nil, exists("consumer", have.Name)
	}
	var known []string
	for _, e := range model.Events {
		known = append(known, e.Name.Text)
	}
	for _, e := range events {
		if !hasEvent(model, e) {
			hint := "the events are " + strings.Join(known, ", ")
			if near := diag.Nearest(e, known); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return nil, &Refusal{fmt.Sprintf("the event %q is not declared", e), hint}
		}
	}
	out, err := addTo(src, "consumers", consumerText(name, events))
	return checked(out, err, func(m *spec.Model) bool { return handles(m, name, events...) })
}

func checkName(what, name, repaired string) error {
	if name == repaired {
		return nil
	}
	hint := "see the names of others of its kind"
	if repaired != "" {
		hint = fmt.Sprintf("write %q", repaired)
	}
	return &Refusal{fmt.Sprintf("the %s name %q is not allowed", what, name), hint}
}

func exists(what string, have spec.Name) error {
	return &Refusal{fmt.Sprintf("the %s %q exists: %s", what, have.Text, have.Pos), "choose another name, or edit it there"}
}

// checked parses the new text before anybody writes it.
func checked(out []byte, err error, is func(*spec.Model) bool) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	model, problems := spec.Parse("events.yaml", out)
	if len(problems) > 0 {
		d := problems[0]
		return nil, &Refusal{"the file would no longer be in order: " + d.Message, d.Hint}
	}
	if !is(model) {
		return nil, &Refusal{"the place for it in the file can't be told", "add it by hand"}
	}
	return out, nil
}

func hasEvent(m *spec.Model, name string) bool {
	for _, e := range m.Events {
		if e.Name.Text == name {
			return true
		}
	}
	return false
}

func consumerOf(m *spec.Model, name string) *spec.Consumer {
	for _, c := range m.Consumers {
		if c.Name.Text == name {
			return c
		}
	}
	return nil
}

func handles(m *spec.Model, consumer string, events ...string) bool {
	c := consumerOf(m, consumer)
	if c == nil {
		return false
	}
	has := map[string]bool{}
	for _, e := range c.Handles {
		has[e.Name.Text] = true
	}
	for _, e := range events {
		if !has[e] {
			return false
		}
	}
	return true
}

// addTo puts an entry at the end of a top-level mapping, which it begins where the file
// has none. The lines of the entry are indented by two spaces a level, from none on.
func addTo(src []byte, key string, entry []string) ([]byte, error) {
	t, err := read(src)
	if err != nil {
		return nil, err
	}
	at, next := t.section(key)
	if at == nil {
		lines := append([]string{"", key + ":"}, indented(entry, 2, 2)...)
		return t.insert(len(t.lines), lines), nil
	}
	if at.Kind == yaml.MappingNode && len(at.Content) == 0 {
		return nil, &Refusal{key + " is an empty pair of braces", "remove the line, and run it again"}
	}
	if at.Kind != yaml.MappingNode || at.Style&yaml.FlowStyle != 0 {
		return nil, &Refusal{fmt.Sprintf("%s is written between braces, and nothing can be added there line by line", key), "write it on lines of their own first"}
	}
	column := at.Content[0].Column - 1
	lines := indented(entry, column, t.step(at))
	end := t.end(next, column)
	if t.hasGaps(at) {
		lines = append([]string{""}, lines...)
	}
	return t.insert(end, lines), nil
}

func indented(entry []string, column, step int) []string {
	out := make([]string, len(entry))
	for i, line := range entry {
		text := strings.TrimLeft(line, " ")
		depth := (len(line) - len(text)) / 2
		out[i] = strings.Repeat(" ", column+depth*step) + text
	}
	return out
}

var blankOrComment = regexp.MustCompile(`^\s*(#.*)?$`)

// end is the line before which an entry of a section goes, counted from 0: behind all
// of the section, and before what stands over the next one.
func (t *text) end(next, column int) int {
	end := next
	for end > 0 {
		line := t.lines[end-1]
		deep := len(line)-len(bytes.TrimLeft(line, " ")) >= column && len(bytes.TrimSpace(line)) > 0
		if deep || !blankOrComment.Match(line) {
			break
		}
		end--
	}
	return end
}
