// Package lint gives advice about an events.yaml that is in order: what its
// readers will miss, take for something else, or be sorry for once it is
// published.
package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/rules"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// Check returns the findings that lint.ignore doesn't silence, each a warning.
func Check(m *spec.Model) diag.List {
	l := &linter{model: m, seen: map[*spec.Named]bool{}, private: map[*spec.Named]bool{}, used: map[spec.Name]bool{}}
	l.consumers()
	l.events()
	for _, t := range m.Types {
		l.typeDoc(t)
		l.structure(subject{t.Name.Text}, t.Name, t.Fields, nil)
	}
	l.people()
	l.unused()
	return l.found.Sorted()
}

type linter struct {
	model *spec.Model
	found diag.List

	seen    map[*spec.Named]bool // by structure: versions share what they declare alike
	private map[*spec.Named]bool // by people
	used    map[spec.Name]bool   // of lint.ignore: the names, or the rule where all is ignored
}

// subject is what a finding is about: an event, a consumer or a type, and behind it a
// field, and one within that. A name may hold dots itself.
type subject []string

func (s subject) field(name string) subject { return append(slices.Clip(s), name) }

// isWithin reports a subject that has that name, or stands in what has.
func (s subject) isWithin(name string) bool {
	for n := range s {
		if strings.Join(s[:n+1], ".") == name {
			return true
		}
	}
	return false
}

// report adds a warning at a name.
func (l *linter) report(rule string, about subject, at spec.Name, message, hint string) {
	if l.ignores(rule, about) {
		return
	}
	d := diag.Diagnostic{Severity: diag.SeverityWarning, Pos: at.Pos, Rule: rule, Message: message, Hint: hint}
	if at.Pos.IsValid() {
		d.End = at.Pos
		d.End.Col += len(at.Text)
	}
	l.found.Add(d)
}

// ignores reports whether the rule is off for the subject or for what it stands in, and
// notes what of lint.ignore says so.
func (l *linter) ignores(rule string, about subject) bool {
	ignored := false
	for _, i := range l.model.Lint.Ignore {
		if i.Rule.Text != rule {
			continue
		}
		if i.All {
			l.used[i.Rule], ignored = true, true
		}
		for _, n := range i.Names {
			if about.isWithin(n.Text) {
				l.used[n], ignored = true, true
			}
		}
	}
	return ignored
}

// unused reports what of lint.ignore has silenced nothing.
func (l *linter) unused() {
	for _, i := range l.model.Lint.Ignore {
		if i.Rule.Text == rules.IgnoreUnused {
			continue
		}
		if i.All && !l.used[i.Rule] {
			l.report("ignore-unused", nil, i.Rule, fmt.Sprintf("lint.ignore of %s silences nothing", i.Rule.Text), "remove it")
		}
		for _, n := range i.Names {
			if !l.used[n] {
				l.report("ignore-unused", nil, n, fmt.Sprintf("%q in lint.ignore of %s silences nothing", n.Text, i.Rule.Text), "remove it")
			}
		}
	}
}
