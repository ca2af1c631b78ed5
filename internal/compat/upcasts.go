package compat

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// upcasts compares what becomes of messages of an old version in each newer one. Two
// versions are looked at where base and current have both.
func (c *comparison) upcasts(was, is *spec.Event) {
	said := c.goSteps(was, is)
	told := map[int]bool{} // old versions of which something was said
	for _, to := range is.Versions {
		if versionOf(was, to.Number) == nil {
			continue
		}
		var from []int
		var difference string
		for _, old := range is.Versions {
			if old.Number >= to.Number || told[old.Number] || versionOf(was, old.Number) == nil || crosses(is, old, to, said) {
				continue
			}
			if text := c.difference(was, is, old.Number, to.Number); text != "" {
				told[old.Number] = true
				from = append(from, old.Number)
				if difference == "" {
					difference = text
				}
			}
		}
		if len(from) > 0 {
			c.finding(UpcastChanged, to.Pos, versionOf(was, to.Number).Pos,
				fmt.Sprintf("version %d of %q is read otherwise as version %d: %s", from[0], is.Name.Text, to.Number, difference),
				removeFirst(was, is, from, to.Number))
		}
	}
}

// goSteps reports steps that were made with Go code and are not, or the other way round,
// and returns their versions.
func (c *comparison) goSteps(was, is *spec.Event) map[int]bool {
	said := map[int]bool{}
	for _, now := range is.Versions {
		before := versionOf(was, now.Number)
		if before == nil || before.Upcast == nil || now.Upcast == nil || before.Upcast.From.Number != now.Upcast.From.Number || before.Upcast.Manual == now.Upcast.Manual {
			continue
		}
		said[now.Number] = true
		change, back := "Go code makes it of version %d no longer", "put upcast: manual back"
		if now.Upcast.Manual {
			change, back = "Go code makes it of version %d, and did not before", "remove upcast: manual"
		}
		c.finding(UpcastChanged, now.Pos, before.Pos,
			fmt.Sprintf("version %d of %q has another upcast: %s", now.Number, is.Name.Text, fmt.Sprintf(change, now.Upcast.From.Number)),
			fmt.Sprintf("%s, and make the change in version %d", back, is.Newest().Number+1))
	}
	return said
}

// crosses reports that the way between two versions leads through a step of which
// something was said.
func crosses(ev *spec.Event, from, to *spec.Version, said map[int]bool) bool {
	return slices.ContainsFunc(ev.Versions, func(v *spec.Version) bool {
		return v.Number > from.Number && v.Number <= to.Number && said[v.Number]
	})
}

// removeFirst is a hint: the oldest versions go first, and what stood between them and a
// newer one only then.
func removeFirst(was, is *spec.Event, from []int, to int) string {
	var between []string
	for _, v := range was.Versions {
		if v.Number > from[0] && v.Number < to && versionOf(is, v.Number) == nil {
			between = append(between, strconv.Itoa(v.Number))
		}
	}
	if len(between) == 0 {
		return fmt.Sprintf("put it back, and make the change in version %d", is.Newest().Number+1)
	}
	var old []string
	for _, number := range from {
		old = append(old, strconv.Itoa(number))
	}
	return fmt.Sprintf("bring %s back, and remove %s first", numbered(between), numbered(old))
}

func numbered(versions []string) string {
	if len(versions) == 1 {
		return "version " + versions[0]
	}
	return "versions " + strings.Join(versions, " and ")
}

// difference says how a message of an old version is read otherwise than before: empty
// when it isn't.
func (c *comparison) difference(was, is *spec.Event, from, to int) string {
	known := versionOf(was, from).Fields // messages that wait have no others
	before := follow(was, was, known, from, to)
	now := follow(is, was, known, from, to)
	if !slices.Equal(before.code, now.code) {
		return fmt.Sprintf("it went through %s, and goes through %s", before.throughCode(), now.throughCode())
	}
	for _, f := range versionOf(was, to).Fields {
		a, b := before.values[f.Name.Text].String(), now.values[f.Name.Text].String()
		if a != b && fieldOf(versionOf(is, to).Fields, f.Name.Text) != nil {
			return fmt.Sprintf("%q was %s, and is %s", f.Name.Text, a, b)
		}
	}
	return ""
}

// value is what a field has after some steps.
type value struct {
	of       string // the field of the old message, or "go" for what Go code made
	optional bool   // of may be absent
	or       string // then it is this, as it is encoded; empty: it stays absent
}

func (v value) String() string {
	switch {
	case v.of == "" && v.or == "":
		return "absent"
	case v.of == "":
		return v.or
	case v.or == "":
		return "taken over"
	default:
		return "taken over or " + v.or
	}
}

// message is a message of an old version on its way to a newer one.
type message struct {
	values map[string]value
	code   []string // the steps of Go code, with what each was given
	steps  []string // the same, as they are named in a finding
}

func (m *message) throughCode() string {
	if len(m.steps) == 0 {
		return "no Go code"
	}
	return "the Go code of " + strings.Join(m.steps, ", ")
}

// follow takes a message with the known fields of version from to version to of ev, by
// the steps of ev. A default of which a finding of its own tells is that of base.
func follow(ev, base *spec.Event, known []*spec.Field, from, to int) *message {
	m := &message{values: map[string]value{}}
	for _, f := range known {
		m.values[f.Name.Text] = value{of: f.Name.Text, optional: f.Optional}
	}
	for _, v := range ev.Versions {
		if v.Number > from && v.Number <= to {
			m.step(v, versionOf(base, v.Number))
		}
	}
	return m
}

func (m *message) step(v, base *spec.Version) {
	if v.Upcast.Manual {
		m.goStep(v)
		return
	}
	next := map[string]value{}
	for _, f := range v.Upcast.Filled {
		next[f.Name.Text] = value{or: settled(f, v, base)}
	}
	for _, cp := range v.Upcast.Copied {
		x := m.values[cp.From.Name.Text]
		if cp.Default && x.or == "" && (x.optional || x.of == "") {
			x = value{of: x.of, or: settled(cp.To, v, base)}
		}
		next[cp.To.Name.Text] = x
	}
	m.values = next
}

// goStep is a step of Go code: every field may be made of all that was there.
func (m *message) goStep(v *spec.Version) {
	var given []string
	for _, name := range slices.Sorted(maps.Keys(m.values)) {
		if x := m.values[name]; x != (value{}) { // a field that came later changes nothing for old messages
			given = append(given, name+" "+x.String())
		}
	}
	m.steps = append(m.steps, fmt.Sprintf("version %d from version %d", v.Number, v.Upcast.From.Number))
	m.code = append(m.code, fmt.Sprintf("%s: %q", m.steps[len(m.steps)-1], given))
	m.values = map[string]value{}
	for _, f := range v.Fields {
		m.values[f.Name.Text] = value{of: "go", optional: f.Optional}
	}
}

// settled is the default of a field that a step of v takes.
func settled(f *spec.Field, v, base *spec.Version) string {
	if base == nil || v == base {
		return defaultText(f)
	}
	w := where{version: v, before: base}
	if was := fieldOf(base.Fields, f.Name.Text); was != nil && w.usesDefault(f.Name.Text) {
		return defaultText(was) // default-changed tells of it
	}
	return defaultText(f)
}
