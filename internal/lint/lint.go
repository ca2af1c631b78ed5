// Package lint gives advice about an events.yaml that is in order: what its
// readers will miss, take for something else, or be sorry for once it is
// published.
package lint

import (
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// Check returns the findings that lint.ignore doesn't silence, each a warning.
func Check(m *spec.Model) diag.List {
	l := &linter{model: m, seen: map[*spec.Named]bool{}, private: map[*spec.Named]bool{}}
	l.consumers()
	l.events()
	for _, t := range m.Types {
		l.typeDoc(t)
		l.structure(t.Name.Text, t.Name, t.Fields, nil)
	}
	l.people()
	return l.found.Sorted()
}

type linter struct {
	model *spec.Model
	found diag.List

	seen    map[*spec.Named]bool // by structure: versions share what they declare alike
	private map[*spec.Named]bool // by people
}

// report adds a warning at a name. subject is what lint.ignore calls it: an owner,
// or a field with its owners before it.
func (l *linter) report(rule, subject string, at spec.Name, message, hint string) {
	if l.ignores(rule, subject) {
		return
	}
	d := diag.Diagnostic{Severity: diag.SeverityWarning, Pos: at.Pos, Rule: rule, Message: message, Hint: hint}
	if at.Pos.IsValid() {
		d.End = at.Pos
		d.End.Col += len(at.Text)
	}
	l.found.Add(d)
}

// ignores reports whether the rule is off for the subject or for what it stands in.
func (l *linter) ignores(rule, subject string) bool {
	for _, i := range l.model.Lint.Ignore {
		if i.Rule.Text != rule {
			continue
		}
		if i.All || slices.ContainsFunc(i.Names, func(n spec.Name) bool {
			return subject == n.Text || strings.HasPrefix(subject, n.Text+".")
		}) {
			return true
		}
	}
	return false
}
