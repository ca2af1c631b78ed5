package rules_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/lint"
	"github.com/outboxgen/outboxgen/internal/rules"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// base is what a fragment of an example is laid over: its keys replace those here.
const base = `version: 1
service: orders
go: { package: orderevents, out: gen/orderevents }
events:
  order.accepted:
    doc: The order is committed and can be queried.
    aggregate: { type: order, id: order_id, version: order_version }
    fields: { order_id: int64, order_version: int64 }
`

// Every example does what its rule says.
func TestExamples(t *testing.T) {
	for _, r := range rules.All() {
		t.Run(r.ID, func(t *testing.T) {
			if r.Example == rules.ExampleNotRun {
				return // NotRun says why, and parse insists on it
			}
			before, after := findings(r, r.Before), findings(r, r.After)
			switch r.Kind {
			case rules.KindLint:
				if !has(before, r.ID) {
					t.Errorf("the example before has no such finding: %v", before)
				}
				if has(after, r.ID) || slices.ContainsFunc(after, isError) {
					t.Errorf("the example after has %v", after)
				}
			case rules.KindBreaking:
				// TODO: compare the two with internal/compat once that is merged.
				if len(before)+len(after) > 0 {
					t.Errorf("both files have to be in order by themselves: %v, %v", before, after)
				}
			default:
				if len(before) == 0 || slices.ContainsFunc(before, func(d diag.Diagnostic) bool { return d.Rule != r.ID }) {
					t.Errorf("the example before has other findings than just this one: %v", described(before))
				}
				if len(after) > 0 {
					t.Errorf("the example after has %v", described(after))
				}
			}
		})
	}
}

func findings(r rules.Rule, s rules.Snippet) diag.List {
	text := s.Text
	if r.Example != rules.ExampleWhole {
		text = lay(text)
	}
	m, problems := spec.Parse("events.yaml", []byte(text))
	if r.Kind == rules.KindLint && len(problems) == 0 {
		return lint.Check(m)
	}
	return problems
}

var topKey = regexp.MustCompile(`(?m)^([a-z]+):`)

// lay puts a fragment's top-level keys in the place of the base's.
func lay(fragment string) string {
	given := map[string]bool{}
	for _, m := range topKey.FindAllStringSubmatch(fragment, -1) {
		given[m[1]] = true
	}
	var kept strings.Builder
	keep := true
	for line := range strings.Lines(base) {
		if m := topKey.FindStringSubmatch(line); m != nil {
			keep = !given[m[1]]
		}
		if keep {
			kept.WriteString(line)
		}
	}
	return kept.String() + fragment
}

func has(list diag.List, rule string) bool {
	return slices.ContainsFunc(list, func(d diag.Diagnostic) bool { return d.Rule == rule })
}

func isError(d diag.Diagnostic) bool { return d.Severity == diag.SeverityError }

func described(list diag.List) string {
	var b strings.Builder
	_ = diag.Text(&b, list)
	return b.String()
}

// A text is to be read at a terminal, in a minute.
func TestTextsAreShort(t *testing.T) {
	for _, r := range rules.All() {
		sentences := strings.Count(r.Why+" ", ". ") + strings.Count(r.Why+" ", "? ")
		if sentences < 1 || sentences > 4 || len(r.Why) > 420 {
			t.Errorf("%s: %d sentences in %d characters", r.ID, sentences, len(r.Why))
		}
		if len(r.Title) > 90 || strings.HasSuffix(r.Title, ".") {
			t.Errorf("%s: the title %q is too long, or ends with a dot", r.ID, r.Title)
		}
		if r.Before == r.After {
			t.Errorf("%s: before and after are the same", r.ID)
		}
	}
}

func TestFind(t *testing.T) {
	if r, ok := rules.Find("unknown-type"); !ok || r.ID != "unknown-type" || r.Kind != rules.KindEvents {
		t.Errorf("found %+v, %v", r, ok)
	}
	for _, id := range []string{"", "no-such-rule", "../text/unknown-type", "Unknown-Type"} {
		if r, ok := rules.Find(id); ok {
			t.Errorf("%q finds %+v", id, r)
		}
	}
}
