package purge_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/purge"
)

// Counts of failed attempts go when they are older than their consumer's time, in
// batches, and no others.
func TestFailedAttemptsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for i := range 25 {
			f.failed = append(f.failed, failure{"a", fmt.Sprint("old ", i), time.Now().Add(-2 * time.Hour)})
		}
		young := []failure{
			{"a", "young", time.Now().Add(-time.Minute)},
			{"b", "of one that keeps them longer", time.Now().Add(-2 * time.Hour)},
			{"c", "of one that isn't named", time.Now().Add(-2 * time.Hour)},
		}
		f.failed = append(f.failed, young...)
		retain := map[string]time.Duration{"a": time.Hour, "b": 3 * time.Hour}
		pass := mustPurge(t, dedupPurger(t, f, retain, purge.Config{BatchSize: 10}))
		if pass.Failed != 25 || len(f.failed) != len(young) || f.count("delete failed") != 3 {
			t.Errorf("%+v in %d batches, left %v", pass, f.count("delete failed"), f.failed)
		}
	})
}

// A locked count is left for the next pass, and one that failed again meanwhile stays.
func TestFailedAttemptsLockedOrRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.failed = []failure{{"a", "x", time.Now().Add(-2 * time.Hour)}}
		locked := true
		f.before = func(_ context.Context, call string) error {
			if call == "delete failed" && locked {
				return errLocked
			}
			return nil
		}
		p := dedupPurger(t, f, map[string]time.Duration{"a": time.Hour}, purge.Config{BatchSize: 1})
		if pass := mustPurge(t, p); pass.Failed != 0 || pass.Deferred != 1 || len(f.failed) != 1 {
			t.Errorf("%+v, left %v", pass, f.failed)
		}
		locked = false
		f.took = func(int) time.Duration {
			f.failed[0].at = time.Now() // behind the read
			return 0
		}
		if pass := mustPurge(t, p); pass.Failed != 0 || len(f.failed) != 1 {
			t.Errorf("%+v, left %v", pass, f.failed)
		}
	})
}

// Without its dedup row a parked event that comes again would be handled.
func TestDedupRowsOfParkedEventsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.consume("a", time.Now().Add(-2*time.Hour))
		parked := f.consume("a", time.Now().Add(-2*time.Hour))
		f.consumed[1].parked = true
		f.consume("a", time.Now().Add(-2*time.Hour))
		p := dedupPurger(t, f, map[string]time.Duration{"a": time.Hour}, purge.Config{BatchSize: 1})
		if pass := mustPurge(t, p); pass.Consumed != 2 || len(f.consumed) != 1 || f.consumed[0].id != parked {
			t.Errorf("%+v, left %v", pass, f.consumed)
		}
	})
}
