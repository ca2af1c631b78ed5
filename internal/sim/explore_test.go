package sim

import (
	"strings"
	"testing"
	"time"
)

func TestExplore(t *testing.T) {
	defer Install()()
	for name, c := range map[string]Case{
		"lanes, one aggregate":  {OneKey: true, Batch: 2, Faults: 1},
		"lanes, two aggregates": {Batch: 2, Faults: 1},
		"rows":                  {Rows: true, Batch: 1, Faults: 1},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			out := Explore(t, c)
			t.Logf("%d courses, %d cut, %d states, at most %d choices, in %v", out.Courses, out.Cut, out.States, out.Longest, time.Since(begin))
			for _, f := range out.Failures {
				t.Errorf("%s\n%v", strings.Join(f.Choices, "\n"), f.Verdicts)
			}
		})
	}
}
