package integration

import (
	"fmt"
	"testing"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Before each statement of a comparison, one after the other, an order comes whose event id was
// made earlier, with its event, which is published and applied at once, and an older event is purged with what
// consumers have of it: nothing is missing.
func TestReconcileBetweenItsStatements(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		proxy := mysqlproxy.Start(t, server.Addr)
		applied := func() string {
			id := lanesKind.placed(t, db)
			lanesKind.published(t, db, id)
			consumed(t, db, planner, id, outbox.Applied)
			consumed(t, db, salesReport, id, outbox.Applied)
			return id.String()
		}
		last := applied()
		for n := 1; ; n++ {
			s := reconciling(t, lanesKind, via(t, server, proxy.Addr(), nil))
			id := outbox.NewEventID()
			fault := proxy.Arm(mysqlproxy.Rule{Action: mysqlproxy.Stall, Nth: n, Match: func(string) bool { return true }})
			type result struct {
				report *ops.ReconcileReport
				err    error
			}
			ended := make(chan result, 1)
			go func() {
				report, err := s.Reconcile(t.Context(), instant(0))
				ended <- result{report, err}
			}()
			var r result
			select {
			case r = <-ended:
			case <-fault.Hit:
				_, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
					return placeOrder(t.Context(), tx, 9, fmt.Sprint(n), id)
				})
				if err != nil {
					t.Fatal(err)
				}
				lanesKind.published(t, db, id)
				consumed(t, db, planner, id, outbox.Applied)
				consumed(t, db, salesReport, id, outbox.Applied)
				for _, statement := range []string{"DELETE FROM orders WHERE acceptance_event_id = ?", "DELETE FROM outbox_event WHERE event_id = ?", "DELETE FROM consumed_event WHERE event_id = ?"} {
					mustExec(t, db, statement, last)
				}
				last = applied()
				close(fault.Forward)
				r = <-ended
			}
			if r.err != nil || r.report.Differences() > 0 {
				t.Errorf("before statement %d: %v, %v", n, r.report, r.err)
			}
			select {
			case <-fault.Hit:
			default: // there are no more statements
				proxy.Disarm(fault)
				if n < 12 {
					t.Errorf("only %d statements came by", n-1)
				}
				return
			}
		}
	})
}
