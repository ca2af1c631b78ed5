package lockfile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/outboxgen/outboxgen/internal/spec"
)

type writer struct{ b strings.Builder }

func (w *writer) line(depth int, format string, args ...any) {
	w.b.WriteString(strings.Repeat("  ", depth))
	fmt.Fprintf(&w.b, format+"\n", args...)
}

// list writes a list that isn't empty.
func (w *writer) list(depth int, key string, items []string) {
	if len(items) > 0 {
		w.line(depth, "%s: %s", key, flow(items))
	}
}

func (w *writer) text(depth int, key, value string) {
	if value != "" {
		w.line(depth, "%s: %s", key, quoted(value))
	}
}

// types writes the named types that a payload holds.
func (w *writer) types(m *spec.Model) {
	used := map[*spec.Named]bool{}
	var visit func(fields []*spec.Field)
	visit = func(fields []*spec.Field) {
		for _, f := range fields {
			if t := f.Type.Innermost(); t.Named != nil && !used[t.Named] {
				used[t.Named] = true
				visit(t.Named.Fields)
			}
		}
	}
	for _, ev := range m.Events {
		for _, v := range ev.Versions {
			visit(v.Fields)
		}
	}
	named := slices.DeleteFunc(slices.Clone(m.Types), func(n *spec.Named) bool { return !used[n] })
	if len(named) == 0 {
		return
	}
	w.line(0, "types:")
	for _, n := range sorted(named, func(n *spec.Named) string { return n.Name.Text }) {
		w.line(1, "%s:", scalar(n.Name.Text))
		w.shape(2, n)
	}
}

func (w *writer) shape(depth int, n *spec.Named) {
	if n.Fields == nil {
		w.line(depth, "enum: %s", flow(values(n)))
		return
	}
	w.fields(depth, n.Fields)
}

func values(n *spec.Named) []string {
	var names []string
	for _, v := range n.Enum {
		names = append(names, v.Name.Text)
	}
	return names
}

func (w *writer) fields(depth int, fields []*spec.Field) {
	w.line(depth, "fields:")
	for _, f := range fields {
		w.field(depth+1, f)
	}
}

func (w *writer) field(depth int, f *spec.Field) {
	name := f.Name.Text
	if f.Optional {
		name += "?"
	}
	name = scalar(name)
	inline := f.Type.Named != nil && f.Type.Named.Inline
	switch {
	case !inline && f.Default == nil:
		w.line(depth, "%s: %s", name, scalar(f.Type.String()))
		return
	case inline:
		w.line(depth, "%s:", name)
		w.shape(depth+1, f.Type.Named)
	default:
		w.line(depth, "%s:", name)
		w.line(depth+1, "type: %s", scalar(f.Type.String()))
	}
	if f.Default != nil {
		w.line(depth+1, "default: %s", f.Default.JSON) // YAML reads JSON
	}
}

func (w *writer) event(ev, before *spec.Event, fixtures map[*spec.Version]string) {
	w.line(1, "%s:", scalar(ev.Name.Text))
	w.text(2, "deprecated", ev.Deprecated)
	w.line(2, "aggregate: { type: %s, id: %s, version: %s }", scalar(ev.Aggregate.Type.Text), scalar(ev.Aggregate.ID.Text), scalar(ev.Aggregate.Version.Text))
	b := ev.Broker
	w.line(2, "broker: { stream: %s, exchange: %s, topic: %s, key: %s }", scalar(b.Stream.Text), scalar(b.Exchange.Text), scalar(b.Topic.Text), scalar(b.Key.Text))
	if numbers := retiredVersions(ev, before); len(numbers) > 0 {
		w.line(2, "retired: [%s]", strings.Join(numbers, ", "))
	}
	w.line(2, "versions:")
	for _, v := range ev.Versions {
		w.line(3, "%d:", v.Number)
		w.text(4, "deprecated", v.Deprecated)
		if v.Upcast != nil && v.Upcast.Manual {
			w.line(4, "upcast: manual")
		}
		var reserved []string
		for _, n := range v.Reserved {
			reserved = append(reserved, n.Text)
		}
		slices.Sort(reserved)
		w.list(4, "reserved", reserved)
		w.fields(4, v.Fields)
		w.text(4, "fixture", fixtures[v])
	}
}

func retiredVersions(ev, before *spec.Event) []string {
	if before == nil {
		return nil
	}
	numbers := slices.Clone(before.Retired)
	for _, v := range before.Versions {
		if !slices.ContainsFunc(ev.Versions, func(n *spec.Version) bool { return n.Number == v.Number }) {
			numbers = append(numbers, v.Number)
		}
	}
	slices.Sort(numbers)
	var texts []string
	for _, n := range slices.Compact(numbers) {
		texts = append(texts, strconv.Itoa(n))
	}
	return texts
}

func (w *writer) consumer(con *spec.Consumer) {
	w.line(1, "%s:", scalar(con.Name.Text))
	w.text(2, "deprecated", con.Deprecated)
	var handles []string
	for _, ev := range sorted(con.Handles, eventName) {
		handles = append(handles, ev.Name.Text)
	}
	w.list(2, "handles", handles)
	w.line(2, "broker: { queue: %s, group: %s }", scalar(con.Broker.Queue.Text), scalar(con.Broker.Group.Text))
}

func flow(items []string) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = scalar(item)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

var (
	plain   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.<>-]*\??$`)
	special = regexp.MustCompile(`^(?i:y|n|yes|no|true|false|on|off|null)$`) // what YAML readers take for something else
)

// scalar is a name, with quotes where it needs them.
func scalar(s string) string {
	if plain.MatchString(s) && !special.MatchString(s) {
		return s
	}
	return quoted(s)
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
