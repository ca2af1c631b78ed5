package rules_test

import (
	"slices"
	"testing"

	"github.com/outboxgen/outboxgen/internal/compat"
	"github.com/outboxgen/outboxgen/internal/rules"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// TestBreakingExamples: what stands under After breaks what stands under Before, by the
// rule that it is an example of.
func TestBreakingExamples(t *testing.T) {
	run := 0
	for _, r := range rules.All() {
		if r.Kind != rules.KindBreaking || r.Example == rules.ExampleNotRun {
			continue
		}
		run++
		base, problems := spec.Parse("base.yaml", []byte(lay(r.Before.Text)))
		current, more := spec.Parse("events.yaml", []byte(lay(r.After.Text)))
		if problems = append(problems, more...); len(problems) > 0 {
			t.Errorf("%s: %v", r.ID, problems)
			continue
		}
		var ids []string
		for _, d := range compat.Compare(base, current) {
			ids = append(ids, d.Rule)
		}
		ids = slices.Compact(ids)
		if r.ID == "service-changed" { // the defaults of routes have the service in them
			ids = slices.DeleteFunc(ids, func(id string) bool { return id == "route-changed" })
		}
		if !slices.Equal(ids, []string{r.ID}) {
			t.Errorf("%s: reports %v", r.ID, ids)
		}
	}
	if run < 15 {
		t.Errorf("only %d examples were run", run)
	}
}
