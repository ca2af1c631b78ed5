package importer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// lines is the file being written. Each line knows what it is about, so that a
// finding about it can be answered there.
type lines struct {
	b      strings.Builder
	owners []any // *typ, *event, *field or *consumer; nil for what is always right
}

func (l *lines) add(owner any, indent int, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.b.WriteString(strings.Repeat("  ", indent) + text + "\n")
	for range strings.Count(text, "\n") + 1 {
		l.owners = append(l.owners, owner)
	}
}

func (l *lines) todos(indent int, todos []string) {
	for _, t := range todos {
		l.add(nil, indent, "# TODO: %s", printable(t))
	}
}

// doc writes a doc text: on one line in quotes, or below as it stands.
func (l *lines) doc(owner any, indent int, text string) {
	text = prose(text)
	switch {
	case text == "":
	case !strings.Contains(text, "\n"):
		l.add(owner, indent, "doc: %s", quoted(text))
	default:
		l.add(owner, indent, "doc: |-")
		for line := range strings.SplitSeq(text, "\n") {
			if line == "" {
				l.add(owner, 0, "")
				continue
			}
			l.add(owner, indent+1, "%s", line)
		}
	}
}

// prose keeps the lines of a text, without what can't be seen.
func prose(text string) string {
	const most = 4000
	if len(text) > most {
		text = text[:most] + " …"
	}
	var out []string
	for line := range strings.Lines(text) {
		line = strings.Map(func(r rune) rune {
			switch {
			case unicode.IsSpace(r):
				return ' '
			case unicode.IsPrint(r) && r != unicode.ReplacementChar:
				return r
			}
			return -1
		}, line)
		out = append(out, strings.TrimSpace(line))
	}
	return strings.TrimSpace(strings.Join(out, "\n"))
}

// quoted is a text in double quotes: a JSON string is one of YAML too.
func quoted(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		return `""` // never: a string encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// key is a name as a key: some words are booleans to many YAML readers.
func key(name string) string {
	switch strings.TrimSuffix(name, "?") {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return quoted(name)
	}
	return name
}

func inSource(orig string) string {
	if orig == "" {
		return ""
	}
	return " # in the source: " + printable(orig)
}

func (d *document) render() *lines {
	l := &lines{}
	l.add(nil, 0, "# Made of %s by outboxgen import. Look through what is marked TODO: the source", d.source)
	l.add(nil, 0, "# does not say it, or says what has no counterpart here.")
	if d.renamed {
		l.add(nil, 0, "# TODO: some names had to change, which says # in the source. Messages in the old form have the old ones.")
	}
	l.add(nil, 0, "version: 1")
	l.add(nil, 0, "service: %s", key(d.service))
	l.add(nil, 0, "")
	l.add(nil, 0, "go:")
	l.add(nil, 1, "package: %s", d.pkg)
	l.add(nil, 1, "out: gen/%s", d.pkg)
	d.renderTypes(l)
	l.add(nil, 0, "\nevents:")
	for _, e := range d.events {
		l.event(e)
	}
	d.renderConsumers(l)
	return l
}

func (d *document) renderTypes(l *lines) {
	begun := false
	for _, t := range d.types {
		if t.gone != "" {
			l.add(nil, 0, "# TODO: the type %s is left out: %s", t.name, printable(t.gone))
			continue
		}
		if !begun {
			l.add(nil, 0, "\ntypes:")
			begun = true
		}
		l.todos(1, t.todos)
		l.add(t, 1, "%s:%s", t.name, inSource(t.orig))
		l.doc(t, 2, t.doc)
		l.goName(t, t.goName)
		if t.enum != nil {
			l.add(t, 2, "enum: %s", flow(t.enum))
			continue
		}
		l.add(t, 2, "fields:")
		l.fields(3, t.fields)
	}
}

func (l *lines) goName(owner any, name string) {
	if name != "" {
		l.add(owner, 2, "go_name: %s", name)
	}
}

func (l *lines) event(e *event) {
	if e.gone != "" {
		l.add(nil, 1, "# TODO: the event %s is left out: %s", e.name, printable(e.gone))
		return
	}
	l.todos(1, e.todos)
	l.add(e, 1, "%s:%s", key(e.name), inSource(e.orig))
	l.doc(e, 2, e.doc)
	if e.deprecated != "" {
		l.add(e, 2, "deprecated: %s", quoted(e.deprecated))
	}
	l.goName(e, e.goName)
	l.add(nil, 2, "# TODO: a guess, as the source doesn't say what the event is about.")
	l.add(e, 2, "aggregate: { type: %s, id: %s, version: %s }", quoted(e.aggregateType), quoted(e.id.name), quoted(e.version.name))
	l.add(e, 2, "fields:")
	l.fields(3, e.fields)
}

func (d *document) renderConsumers(l *lines) {
	begun := false
	for _, c := range d.consumers {
		var handles []string
		for _, e := range c.handles {
			if e.gone == "" {
				handles = append(handles, e.name)
			}
		}
		if len(handles) == 0 && c.gone == "" {
			c.gone = "it handles nothing"
		}
		if c.gone != "" {
			l.add(nil, 0, "# TODO: the consumer %s is left out: %s", c.name, printable(c.gone))
			continue
		}
		if !begun {
			l.add(nil, 0, "\nconsumers:")
			begun = true
		}
		l.todos(1, c.todos)
		l.add(c, 1, "%s:%s", key(c.name), inSource(c.orig))
		l.doc(c, 2, c.doc)
		l.goName(c, c.goName)
		l.add(c, 2, "handles: %s", flow(handles))
	}
}

func flow(values []string) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = quoted(v)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func (l *lines) fields(indent int, fields []*field) {
	for _, f := range fields {
		if f.gone != "" {
			orig := f.orig
			if orig == "" {
				orig = f.name
			}
			l.add(nil, indent, "# TODO: the field %s is left out: %s", printable(orig), printable(f.gone))
			continue
		}
		l.todos(indent, f.todos)
		name := f.name
		if f.optional {
			name += "?"
		}
		if f.shape.enum == nil && prose(f.doc) == "" && f.deprecated == "" && !f.pii {
			l.add(f, indent, "%s: %s%s", key(name), f.shape, inSource(f.orig))
			continue
		}
		l.add(f, indent, "%s:%s", key(name), inSource(f.orig))
		if f.shape.enum != nil {
			l.add(f, indent+1, "enum: %s", flow(f.shape.enum))
		} else {
			l.add(f, indent+1, "type: %s", f.shape)
		}
		l.doc(f, indent+1, f.doc)
		if f.deprecated != "" {
			l.add(f, indent+1, "deprecated: %s", quoted(f.deprecated))
		}
		if f.pii {
			l.add(f, indent+1, "pii: true")
		}
	}
}
