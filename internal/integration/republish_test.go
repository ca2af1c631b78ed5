package integration

import (
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/example/schema"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Two people have seen the same lost event. It is published, and deleted, between what the
// first one and the second one do: the second writes nothing.
func TestRepublishAfterItWasDeletedAgain(t *testing.T) {
	for _, k := range allKinds {
		t.Run(k.name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
				t.Parallel()
				server.Exec(t, schema.Statements()...)
				server.Exec(t, k.schema()...)
				db := open(t, server.DSN)
				s := reconciling(t, k, server.DSN)
				id := k.placed(t, db)
				mustExec(t, db, "INSERT INTO order_line (order_id, line_no, sku, quantity, unit_price) SELECT id, 1, 'apple', 2, 5 FROM orders")
				mustExec(t, db, "DELETE FROM outbox_event")
				var reports [2]*ops.ReconcileReport
				for i := range reports {
					var err error
					if reports[i], err = s.Reconcile(t.Context(), instant(0)); err != nil || len(reports[i].Findings) != 1 {
						t.Fatalf("%+v, %v", reports[i], err)
					}
				}
				if note := republishOne(t, s, reports[0]); note != "" {
					t.Fatal(note)
				}
				k.published(t, db, id)
				left := count(t, db, "outbox_event")
				if note := republishOne(t, s, reports[1]); note != "already written: somebody else was first" {
					t.Errorf("the second one: %q", note)
				}
				if n := count(t, db, "outbox_event"); n != left {
					t.Errorf("%d events, want %d", n, left)
				}
				if n := count(t, db, "outbox_audit"); n != 1 {
					t.Errorf("%d rows of the audit", n)
				}
			})
		})
	}
}

func republishOne(t testing.TB, s *ops.Service, report *ops.ReconcileReport) (note string) {
	t.Helper()
	results, err := s.Republish(t.Context(), report, true, ops.Pace{})
	if err != nil || len(results) != 1 || results[0].Done != (results[0].Note == "") {
		t.Fatalf("%+v, %v", results, err)
	}
	return results[0].Note
}

// An order that is deleted, or an event that is applied or purged, between the look and the
// republishing is no longer made anew.
func TestRepublishWhatHasChanged(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		s := reconciling(t, lanesKind, server.DSN)
		look := func(change string) string {
			t.Helper()
			report, err := s.Reconcile(t.Context(), instant(0))
			if err != nil || len(report.Findings) != 1 {
				t.Fatalf("%+v, %v", report, err)
			}
			mustExec(t, db, change)
			return republishOne(t, s, report)
		}
		lanesKind.placed(t, db)
		mustExec(t, db, "DELETE FROM outbox_event")
		if note := look("DELETE FROM orders"); !strings.Contains(note, "its business row is gone") {
			t.Error(note)
		}
		id := lanesKind.placed(t, db)
		lanesKind.published(t, db, id)
		consumed(t, db, planner, id, outbox.Applied)
		if note := look("INSERT INTO consumed_event (consumer_name, event_id, outcome, consumed_at) SELECT 'sales-report', event_id, 1, consumed_at FROM consumed_event"); !strings.Contains(note, "already processed") {
			t.Error(note)
		}
		mustExec(t, db, "DELETE FROM consumed_event WHERE consumer_name = 'sales-report'")
		if note := look("DELETE FROM outbox_event"); !strings.Contains(note, "its payload is gone") {
			t.Error(note)
		}
		for _, table := range []string{"outbox_event", "parked_event", "consumer_redrive", "outbox_audit"} {
			if n := count(t, db, table); n != 0 {
				t.Errorf("%d rows of %s", n, table)
			}
		}
	})
}

// A reader compares, and an operator with what doctor prints for it republishes: with SELECT on the
// business rows, and what it takes to lock them.
func TestRepublishUnderLeastPrivileges(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		lost, lagging := lanesKind.placed(t, db), lanesKind.placed(t, db)
		mustExec(t, db, "INSERT INTO order_line (order_id, line_no, sku, quantity, unit_price) SELECT id, 1, 'apple', 2, 5 FROM orders")
		mustExec(t, db, "DELETE FROM outbox_event WHERE event_id = ?", lost.String())
		lanesKind.published(t, db, lagging)
		consumed(t, db, planner, lagging, outbox.Applied)
		args := []string{"--from", "1h", "--to", "0s", "--apply-delay", "1us"}
		reader := as(t, server, "../../events.yaml", "reader", "SELECT (id, acceptance_event_id, created_at) ON orders")
		if r, stderr, code := runReconcile(t, reader.DSN, args...); code != 1 || len(r.Findings) != 2 {
			t.Errorf("a reader: %d %v\n%s", code, r.findings(), stderr)
		}
		operator := as(t, server, "../../events.yaml", "operator", "SELECT, UPDATE (version) ON orders", "SELECT ON order_line")
		if r, stderr, code := runReconcile(t, operator.DSN, append(args, "--republish", "--yes")...); code != 1 || doneResults(r) != 2 {
			t.Errorf("an operator: %d %+v\n%s", code, r.Republish, stderr)
		}
	})
}
