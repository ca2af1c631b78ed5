package integration

import (
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/storesuite"
)

// One pass deletes what is older than events.yaml keeps it, and nothing else.
func TestPurgeByHand(t *testing.T) {
	eachKind(t, kinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		k.bury(t, db, 1, 4)
		k.writeEvents(t, db, 100, 10)
		publishAll(t, k.newStore(db), storesuite.NewOwner())
		k.writeEvents(t, db, 200, 2)
		s := operations(t, k, server)
		consumer, dedup := "nobody's", int64(0) // of a consumer that events.yaml doesn't have nothing is deleted
		if all := s.Model().Consumers; len(all) > 0 {
			consumer, dedup = all[0].Name.Text, 2
		}
		mustExec(t, db, "UPDATE outbox_event SET published_at = UTC_TIMESTAMP(6) - INTERVAL 8 DAY, available_at = UTC_TIMESTAMP(6) - INTERVAL 8 DAY WHERE status = 2 ORDER BY event_id LIMIT 6")
		for i, days := range []int{41, 40, 1} {
			mustExec(t, db, "INSERT INTO consumed_event (consumer_name, event_id, consumed_at) VALUES (?, ?, UTC_TIMESTAMP(6) - INTERVAL ? DAY)", consumer, outbox.NewEventID().String(), days)
			mustExec(t, db, "INSERT INTO outbox_audit (happened_at, operation, operator, detail) VALUES (UTC_TIMESTAMP(6) - INTERVAL ? DAY, 'pause', 'test', ?)", days, i)
		}
		mustExec(t, db, "UPDATE outbox_event SET status = 4, created_at = UTC_TIMESTAMP(6) - INTERVAL 40 DAY WHERE status = 3 ORDER BY event_id LIMIT 3")

		out, err := s.Purge(t.Context(), ops.PurgeOptions{Events: true, Dedup: true})
		if err != nil {
			t.Fatal(err)
		}
		events, kept := int64(6), 4
		if k.deletes {
			events, kept = 0, 0
		}
		if out.Events != events || out.Consumed != dedup || out.Discarded != 0 || out.Audit != 0 || out.Elsewhere {
			t.Errorf("deleted %+v", out)
		}
		out, err = s.Purge(t.Context(), ops.PurgeOptions{Discarded: 30 * 24 * time.Hour, Audit: 30 * 24 * time.Hour})
		if err != nil || out != (ops.Purged{Discarded: 3, Audit: 2}) {
			t.Errorf("deleted %+v: %v", out, err)
		}
		for table, want := range map[string]int{
			"outbox_event WHERE status = 0": 2, "outbox_event WHERE status = 2": kept, "outbox_event WHERE status = 3": 1,
			"outbox_event WHERE status = 4": 0, "outbox_failure": 1, "consumed_event": 3 - int(dedup), "outbox_audit": 1, "outbox_task": 0,
		} {
			if n := count(t, db, table); n != want {
				t.Errorf("%s: %d rows are left, want %d", table, n, want)
			}
		}
	})
}
