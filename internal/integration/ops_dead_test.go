package integration

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/storesuite"
)

// counting is a publisher that confirms, and counts what it was given.
type counting struct {
	mu    sync.Mutex
	times map[uuid.UUID]int
	all   chan struct{} // closed when want different ones came
	want  int
}

func (c *counting) Publish(_ context.Context, messages []outbox.Envelope) []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range messages {
		c.times[m.ID]++
		if c.times[m.ID] == 1 && len(c.times) == c.want {
			close(c.all)
		}
	}
	return make([]error, len(messages))
}

// Two people, with the same dead events before them, redrive them at the same moment
// while relays run: each event goes out once for it.
func TestTwoPeopleRedriveTheSameDeadEvents(t *testing.T) {
	const n = 300
	eachKind(t, kinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		ids := k.bury(t, db, 1, n)
		people := []*ops.Service{operations(t, k, server), operations(t, k, server)}
		published := &counting{times: map[uuid.UUID]int{}, all: make(chan struct{}), want: n}
		relay, err := outbox.NewRelay(k.newStore(db), published, &outbox.RelayConfig{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var relaying sync.WaitGroup
		relaying.Go(func() { _ = relay.Run(ctx) })
		defer relaying.Wait()
		defer stop()

		plans, done := make([]ops.Plan, 2), make([]int, 2)
		for i, s := range people {
			if plans[i], err = s.PlanDead(t.Context(), ops.Selection{All: true}); err != nil || len(plans[i].Events) != n {
				t.Fatalf("%d events are planned, want %d: %v", len(plans[i].Events), n, err)
			}
		}
		var acting sync.WaitGroup
		for i, s := range people {
			acting.Go(func() {
				results, err := s.RedriveDead(t.Context(), plans[i], ops.Pace{})
				if err != nil || len(results) != n {
					t.Errorf("%d results: %v", len(results), err)
				}
				done[i] = doneOf(results)
			})
		}
		acting.Wait()
		<-published.all
		stop()
		relaying.Wait()
		if done[0]+done[1] != n {
			t.Errorf("one redrove %d events, the other %d; want %d together", done[0], done[1], n)
		}
		for _, id := range ids {
			if published.times[id] != 1 {
				t.Errorf("event %s was published %d times", id, published.times[id])
			}
		}
		if audited := count(t, db, "outbox_audit WHERE operation = 'dead.redrive'"); audited != n {
			t.Errorf("%d redrives are in the audit, want %d", audited, n)
		}
	})
}

// Who acts on what they saw before an event was redriven and died again is told so.
func TestRedriveOfAnOlderDeath(t *testing.T) {
	eachKind(t, kinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		k.bury(t, db, 1, 3)
		s := operations(t, k, server)
		plan, err := s.PlanDead(t.Context(), ops.Selection{All: true})
		if err != nil {
			t.Fatal(err)
		}
		results, err := s.RedriveDead(t.Context(), plan, ops.Pace{})
		if err != nil || doneOf(results) != 3 {
			t.Fatal(results, err)
		}
		k.buryDue(t, db)
		results, err = s.RedriveDead(t.Context(), plan, ops.Pace{})
		if err != nil || doneOf(results) != 0 || !strings.Contains(results[0].Note, "died again") {
			t.Errorf("of the death before: %+v, %v", results, err)
		}
		if n := count(t, db, "outbox_event WHERE status = 3"); n != 3 {
			t.Errorf("%d events are dead, want 3", n)
		}
	})
}

// Redriven events come in the order in which they were written, each aggregate's in theirs.
func TestRedriveKeepsTheOrder(t *testing.T) {
	eachKind(t, []kind{lanesKind, lanesDeleteKind}, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		var ids []uuid.UUID
		for version := int64(1); version <= 5; version++ {
			id := outbox.NewEventID()
			ids = append(ids, id)
			if _, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error { return k.write(t.Context(), tx, id, 7, version) }); err != nil {
				t.Fatal(err)
			}
		}
		k.buryDue(t, db)
		s := operations(t, k, server)
		for _, sel := range []ops.Selection{{IDs: []uuid.UUID{ids[4], ids[2]}}, {AggregateType: "order", AggregateID: "7"}} {
			plan, err := s.PlanDead(t.Context(), sel)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.RedriveDead(t.Context(), plan, ops.Pace{}); err != nil {
				t.Fatal(err)
			}
		}
		b := claimN(t, k.newStore(db), storesuite.NewOwner(), 100)
		var got []string
		for _, e := range b.Events {
			got = append(got, e.Key)
		}
		for i, id := range ids {
			if len(got) != len(ids) || got[i] != id.String() {
				t.Fatalf("claimed %v, want %v", got, ids)
			}
		}
	})
}

// A discarded event is claimed by nobody, says so, and can be brought back.
func TestDiscardedEvent(t *testing.T) {
	eachKind(t, kinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		id := k.bury(t, db, 1, 1)[0]
		s := operations(t, k, server)
		plan, err := s.PlanDead(t.Context(), ops.Selection{IDs: []uuid.UUID{id}})
		if err != nil {
			t.Fatal(err)
		}
		if results, err := s.DiscardDead(t.Context(), plan, "a test", ops.Pace{}); err != nil || doneOf(results) != 1 {
			t.Fatal(results, err)
		}
		if n := publishAll(t, k.newStore(db), storesuite.NewOwner()); n != 0 {
			t.Errorf("%d events were published", n)
		}
		if state := k.state(t, db, id).State; state != "DISCARDED" {
			t.Errorf("the event is %s", state)
		}
		plan, err = s.PlanDead(t.Context(), ops.Selection{All: true, Type: "order.accepted"})
		if err != nil || len(plan.Events) != 0 {
			t.Errorf("still planned: %+v, %v", plan, err)
		}
		plan, err = s.PlanDead(t.Context(), ops.Selection{IDs: []uuid.UUID{id}, Discarded: true})
		if err != nil {
			t.Fatal(err)
		}
		if results, err := s.RedriveDead(t.Context(), plan, ops.Pace{}); err != nil || doneOf(results) != 1 {
			t.Fatal(results, err)
		}
		if n := publishAll(t, k.newStore(db), storesuite.NewOwner()); n != 1 {
			t.Errorf("%d events were published after it came back, want 1", n)
		}
	})
}
