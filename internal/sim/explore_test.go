package sim

import (
	"flag"
	"strings"
	"testing"
	"time"
)

var faults = flag.Int("sim.faults", 1, "how many faults the exhaustive case has")

func TestExplore(t *testing.T) {
	defer Install()()
	for _, test := range []struct {
		name string
		c    Case
	}{
		{"lanes, one aggregate, one claim", Case{OneKey: true, Batch: 2}},
		{"lanes, one aggregate, two claims", Case{OneKey: true, Batch: 1}},
		{"lanes, two aggregates", Case{Batch: 1}},
		{"rows, one claim", Case{Rows: true, Batch: 2}},
		{"rows, two claims", Case{Rows: true, Batch: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := test.c
			c.Batches, c.Faults = 1, *faults
			begin := time.Now()
			out := Explore(t, c)
			t.Logf("%d courses, %d cut, %d states, at most %d choices, in %v", out.Courses, out.Cut, out.States, out.Longest, time.Since(begin))
			if out.Cut == 0 || out.Courses < 10 {
				t.Error("the relays do not meet")
			}
			for _, f := range out.Failures {
				t.Errorf("%s\n%v", strings.Join(f.Choices, "\n"), f.Verdicts)
			}
		})
	}
}
