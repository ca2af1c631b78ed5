package sim

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/internal/history"
)

var (
	seed  = flag.Uint64("sim.seed", 0, "run the plan of this seed alone, and tell of it")
	seeds = flag.Int("sim.seeds", 600, "how many plans to run")
	first = flag.Uint64("sim.first", 1, "the seed of the first of them")
)

// wholeCoverage is how many plans must have everything in them.
const wholeCoverage = 5000

// each runs f for n seeds from the first on, on all processors.
func each(t *testing.T, from uint64, n int, f func(t *testing.T, seed uint64)) {
	var next atomic.Uint64
	t.Run("plans", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for !t.Failed() {
					i := next.Add(1) - 1
					if i >= uint64(n) {
						return
					}
					f(t, from+i)
				}
			})
		}
	})
}

// judge tells of a failed run, and of the fewest of its faults that it fails with.
func judge(t *testing.T, r Result) {
	t.Helper()
	if !r.Failed() {
		return
	}
	r = shrink(t, r)
	t.Errorf("plan of seed %d fails; run it again with: make sim SEED=%d\n%s", r.Plan.Seed, r.Plan.Seed, describe(r, history.Failed(r.Verdicts)))
}

func shrink(t *testing.T, r Result) Result {
	for i := 0; i < len(r.Plan.Faults); {
		p := r.Plan
		p.Faults = slices.Delete(slices.Clone(p.Faults), i, i+1)
		if fewer := Run(t, p); fewer.Failed() {
			r = fewer
		} else {
			i++
		}
	}
	return r
}

func describe(r Result, verdicts []history.Verdict) string {
	var b strings.Builder
	for _, f := range r.Plan.Faults {
		fmt.Fprintf(&b, "  fault %v\n", f)
	}
	for _, text := range r.Broken {
		fmt.Fprintf(&b, "  %s\n", text)
	}
	for _, v := range verdicts {
		fmt.Fprintf(&b, "  %s %s: %s\n", v.Invariant, v.Result, v.Claim)
		for _, e := range v.Evidence {
			fmt.Fprintf(&b, "      %s\n", e)
		}
	}
	return b.String()
}

func TestPlans(t *testing.T) {
	defer Install()()
	if *seed != 0 {
		r := Run(t, NewPlan(*seed))
		t.Logf("%v simulated, %d deadlocks, %d lock waits, trace %x\n%s", r.Simulated, r.Deadlocks, r.LockWaits, r.Trace, describe(r, r.Verdicts))
		judge(t, r)
		return
	}
	begin := time.Now()
	var coverage Coverage
	each(t, *first, *seeds, func(t *testing.T, seed uint64) {
		r := Run(t, NewPlan(seed))
		coverage.Add(r)
		judge(t, r)
	})
	t.Logf("%d plans in %v\n%s", coverage.Runs, time.Since(begin), &coverage)
	if empty := coverage.Empty(); *seeds >= wholeCoverage && len(empty) > 0 {
		t.Errorf("never in %d plans: %q", coverage.Runs, empty)
	}
}

// The same plan takes the same course: else a seed would replay nothing.
func TestReplay(t *testing.T) {
	if raceDetector {
		t.Fatal("the race detector shuffles goroutines: run this package's tests without -race, as make test does")
	}
	defer Install()()
	each(t, 1_000_000, *seeds/10, func(t *testing.T, seed uint64) {
		p := NewPlan(seed)
		p.Tell = true
		if a, b := Run(t, p), Run(t, p); a.Trace != b.Trace {
			t.Errorf("plan of seed %d took two courses:\n%s", seed, firstDifference(a.Steps, b.Steps))
		}
	})
}

func firstDifference(a, b []string) string {
	slices.Sort(a) // what happens at the same moment has no order
	slices.Sort(b)
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("  %q\n  %q", a[max(0, i-5):min(len(a), i+5)], b[max(0, i-5):min(len(b), i+5)])
		}
	}
	return fmt.Sprintf("  %d and %d steps", len(a), len(b))
}
