package integration

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/storesuite"
)

// An event that was processed is handed over once more when two people force it with the
// same plan, and not without force.
func TestForcedRedrive(t *testing.T) {
	eachConsumer(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		ids := lanesKind.writeEvents(t, db, 1, 3)
		store, owner := lanesKind.newStore(db), storesuite.NewOwner()
		batch := claimN(t, store, owner, 100)
		settleAll(t, store, batch, outbox.OutcomePublished)
		consumer := report(db, tally)
		for _, e := range batch.Events {
			ends(t, consumer, e.Envelope, outbox.Applied)
		}
		people := []*ops.Service{operations(t, lanesKind, server), operations(t, lanesKind, server)}

		plain, err := people[0].PlanParked(t.Context(), salesReport, ops.Selection{IDs: ids})
		if err != nil || len(plain.Events) != 0 || len(plain.Gone) != 3 || plain.Gone[0].Note != "already processed: applied" {
			t.Errorf("without force: %+v, %v", plain, err)
		}
		plans, done := make([]ops.ForcePlan, 2), make([]int, 2)
		for i, s := range people {
			if plans[i], err = s.PlanForce(t.Context(), salesReport, ids[:2]); err != nil {
				t.Fatal(err)
			}
		}
		var acting sync.WaitGroup
		for i, s := range people {
			acting.Go(func() {
				results, err := s.Force(t.Context(), plans[i], "a test", ops.Pace{})
				if err != nil {
					t.Error(err)
				}
				done[i] = doneOf(results)
			})
		}
		acting.Wait()
		if done[0]+done[1] != 2 {
			t.Errorf("one forced %d events, the other %d; want 2 together", done[0], done[1])
		}
		for _, e := range batch.Events { // a delivery meanwhile is absorbed
			ends(t, consumer, e.Envelope, outbox.Duplicate)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = consumer.RunRedrives(ctx) })
		results := awaitRedrives(t, people[0], ids[:2])
		stop()
		running.Wait()
		if doneOf(results) != 2 {
			t.Errorf("the results are %+v", results)
		}
		for i, want := range []int{2, 2, 1} {
			if n := count(t, db, "tally WHERE event_id = ?", ids[i].String()); n != want {
				t.Errorf("event %d has %d effects, want %d", i, n, want)
			}
		}
		late, err := people[1].Force(t.Context(), plans[1], "a test", ops.Pace{})
		if err != nil || doneOf(late) != 0 || !strings.Contains(late[0].Note, "already processed") {
			t.Errorf("with a plan from before: %+v, %v", late, err)
		}
		unknown, err := people[0].PlanForce(t.Context(), salesReport, []uuid.UUID{outbox.NewEventID()})
		if err != nil {
			t.Fatal(err)
		}
		if results, err := people[0].Force(t.Context(), unknown, "a test", ops.Pace{}); err != nil || doneOf(results) != 0 || !strings.Contains(results[0].Note, "no row of it") {
			t.Errorf("of an unknown event: %+v, %v", results, err)
		}
	})
}
