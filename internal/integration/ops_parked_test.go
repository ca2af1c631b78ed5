package integration

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const salesReport = "sales-report"

// park parks events of the order 1, the later ones with later versions.
func park(t *testing.T, consumer *outbox.Consumer, n int) []uuid.UUID {
	t.Helper()
	ids := make([]uuid.UUID, n)
	for i := range ids {
		e := envelope(t)
		e.AggregateVersion = int64(n - i) // parked in the wrong order
		ends(t, consumer, e, outbox.Parked)
		ids[n-1-i] = e.ID
	}
	return ids
}

// Two people ask for the same redrives at the same moment, and two processes carry them
// out: each event is handed over once, in the order of its aggregate.
func TestTwoPeopleRedriveTheSameParkedEvents(t *testing.T) {
	const n = 40
	eachConsumer(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		var mu sync.Mutex
		var handed []string
		parking := true
		do := func(ctx context.Context, tx *outbox.Tx, id string) error {
			mu.Lock()
			defer mu.Unlock()
			if parking {
				return outbox.Permanent(errors.New("not now"))
			}
			handed = append(handed, id)
			return tally(ctx, tx, id)
		}
		ids := park(t, report(db, do), n)
		mu.Lock()
		parking = false
		mu.Unlock()

		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		for range 2 {
			running.Go(func() { _ = report(db, do).RunRedrives(ctx) })
		}
		people := []*ops.Service{operations(t, lanesKind, server), operations(t, lanesKind, server)}
		plans, done := make([]ops.Plan, 2), make([]int, 2)
		var err error
		for i, s := range people {
			if plans[i], err = s.PlanParked(t.Context(), salesReport, ops.Selection{All: true}); err != nil || len(plans[i].Events) != n {
				t.Fatalf("%d events are planned, want %d: %v", len(plans[i].Events), n, err)
			}
		}
		var acting sync.WaitGroup
		for i, s := range people {
			acting.Go(func() {
				results, err := s.RedriveParked(t.Context(), plans[i], ops.Pace{PerSecond: 1000})
				if err != nil || len(results) != n {
					t.Errorf("%d results: %v", len(results), err)
				}
				done[i] = doneOf(results)
			})
		}
		acting.Wait()
		if done[0]+done[1] != n {
			t.Errorf("one asked for %d redrives, the other for %d; want %d together", done[0], done[1], n)
		}
		results := awaitRedrives(t, people[0], ids)
		if doneOf(results) != n || len(results) != n {
			t.Errorf("%d of %d results are done, want %d", doneOf(results), len(results), n)
		}
		stop()
		running.Wait()
		if len(handed) != n {
			t.Errorf("%d events were handed over, want %d", len(handed), n)
		}
		if done[0] == n || done[1] == n { // otherwise two mixed their orders
			for i, id := range ids {
				if handed[i] != id.String() {
					t.Fatalf("number %d was %s, want %s", i, handed[i], id)
				}
			}
		}
		if n := count(t, db, "tally"); n != len(ids) {
			t.Errorf("%d effects, want %d", n, len(ids))
		}
	})
}

func awaitRedrives(t *testing.T, s *ops.Service, ids []uuid.UUID) []ops.Result {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		results, waiting, err := s.RedriveResults(t.Context(), salesReport, ids, 0)
		if err != nil {
			t.Fatal(err)
		}
		if waiting == 0 {
			return results
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d redrives still wait", waiting)
		}
	}
}

// A redrive that fails leaves its event parked, with the new reason, and says so.
func TestAskedRedriveThatFails(t *testing.T) {
	eachConsumer(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		consumer := report(db, func(context.Context, *outbox.Tx, string) error {
			return outbox.Permanent(errors.New("still not"))
		})
		ids := park(t, consumer, 1)
		s := operations(t, lanesKind, server)
		plan, err := s.PlanParked(t.Context(), salesReport, ops.Selection{IDs: ids})
		if err != nil {
			t.Fatal(err)
		}
		if results, err := s.RedriveParked(t.Context(), plan, ops.Pace{}); err != nil || doneOf(results) != 1 {
			t.Fatal(results, err)
		}
		if results, err := s.RedriveParked(t.Context(), plan, ops.Pace{}); err != nil || doneOf(results) != 0 || !strings.Contains(results[0].Note, "already asked for") {
			t.Errorf("asked twice: %+v, %v", results, err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = consumer.RunRedrives(ctx) })
		results := awaitRedrives(t, s, ids)
		stop()
		running.Wait()
		if len(results) != 1 || results[0].Done || !strings.Contains(results[0].Note, "still not") {
			t.Errorf("the results are %+v", results)
		}
		if p := parkedOf(t, consumer, ids[0]); p.Attempts != 1 {
			t.Errorf("%+v", p)
		}
	})
}

// A redrive in whose processes all ended is given up.
func TestRedriveThatEndsItsProcesses(t *testing.T) {
	eachConsumer(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		called := false
		consumer := report(db, func(context.Context, *outbox.Tx, string) error {
			if called {
				t.Error("it was handed over")
			}
			called = true
			return outbox.Permanent(errors.New("not now"))
		})
		ids := park(t, consumer, 1)
		s := operations(t, lanesKind, server)
		plan, err := s.PlanParked(t.Context(), salesReport, ops.Selection{IDs: ids})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.RedriveParked(t.Context(), plan, ops.Pace{}); err != nil {
			t.Fatal(err)
		}
		mustExec(t, db, "UPDATE consumer_redrive SET tries = 3")
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = consumer.RunRedrives(ctx) })
		results := awaitRedrives(t, s, ids)
		stop()
		running.Wait()
		if len(results) != 1 || results[0].Done || !strings.Contains(results[0].Note, "begun 3 times") {
			t.Errorf("the results are %+v", results)
		}
		parkedOf(t, consumer, ids[0])
	})
}

// A discarded parked event is gone, its redelivery is absorbed, and whoever comes later is told.
func TestDiscardedParkedEvent(t *testing.T) {
	eachConsumer(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		consumer := report(db, func(context.Context, *outbox.Tx, string) error { return outbox.Permanent(errors.New("no")) })
		e := envelope(t)
		ends(t, consumer, e, outbox.Parked)
		s := operations(t, lanesKind, server)
		plan, err := s.PlanParked(t.Context(), salesReport, ops.Selection{All: true})
		if err != nil {
			t.Fatal(err)
		}
		if results, err := s.DiscardParked(t.Context(), plan, "a test", ops.Pace{}); err != nil || doneOf(results) != 1 {
			t.Fatal(results, err)
		}
		checkLeft(t, db, e, left{attempts: -1, outcome: int(outbox.Discarded)})
		ends(t, consumer, e, outbox.Duplicate)
		if results, err := s.RedriveParked(t.Context(), plan, ops.Pace{}); err != nil || doneOf(results) != 0 || !strings.Contains(results[0].Note, "already processed") {
			t.Errorf("redriven after it: %+v, %v", results, err)
		}
		plan, err = s.PlanParked(t.Context(), salesReport, ops.Selection{IDs: []uuid.UUID{e.ID}})
		if err != nil || len(plan.Gone) != 1 || plan.Gone[0].Note != "discarded" {
			t.Errorf("looked at after it: %+v, %v", plan, err)
		}
	})
}
