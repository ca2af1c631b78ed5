package integration

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outboxgen/outboxgen/example/consumers/notificationplanner"
	"github.com/outboxgen/outboxgen/example/consumers/salesreport"
	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest"
)

const planner = "notification-planner"

// runService runs a relay and both consumers until the returned function is called.
func runService(t testing.TB, db *outbox.DB) (stop func()) {
	t.Helper()
	silent := slog.New(slog.DiscardHandler)
	broker := outboxtest.NewBroker(outboxtest.BrokerConfig{Logger: silent})
	relay, err := outbox.NewRelay(orderevents.NewStore(db), broker, &outbox.RelayConfig{Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = relay.Run(ctx) })
	for _, c := range []*outbox.Consumer{
		orderevents.NewSalesReport(db, &salesreport.Handler{}, &upcasts.Upcaster{}, patience()),
		orderevents.NewNotificationPlanner(db, &notificationplanner.Handler{}, &upcasts.Upcaster{}, patience()),
	} {
		running.Go(func() { _ = broker.Subscribe(ctx, c) })
		running.Go(func() { _ = c.RunRedrives(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
		broker.Close()
	}
}

// eventually waits for a count to be as wanted.
func eventually(t testing.TB, db *outbox.DB, want int, query string, args ...any) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n := -1; ; <-tick.C {
		if n = count(t, db, query, args...); n == want {
			return
		}
		if t.Context().Err() != nil {
			t.Fatalf("%s: %d, want %d", query, n, want)
		}
	}
}

// Three event rows and two dedup rows of a hundred thousand orders are deleted by hand: these
// five are found, and nothing else; they are made anew, and nothing is found any more.
func TestReconcileNamesWhatIsMissing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		t.Parallel()
		f := filled{begin: time.Now().Add(-20 * time.Hour), step: 500 * time.Millisecond, rows: 100_000}
		pool := fillOrders(t, server, f)
		db := open(t, server.DSN)
		lost := f.eventIDs(t, pool, 1, 50_000, 100_000)
		slices.Sort(lost)
		unapplied := f.eventIDs(t, pool, 777, 4000)
		for _, id := range lost {
			mustExec(t, db, "DELETE FROM outbox_event WHERE event_id = ?", id)
		}
		mustExec(t, db, "DELETE FROM consumed_event WHERE event_id = ? AND consumer_name = ?", lost[1], planner) // applied by one only
		mustExec(t, db, "DELETE FROM consumed_event WHERE event_id = ? AND consumer_name = ?", unapplied[0], salesReport)
		mustExec(t, db, "DELETE FROM consumed_event WHERE event_id = ? AND consumer_name = ?", unapplied[1], planner)
		want := []string{
			"no-event " + lost[0] + " ", "no-event " + lost[1] + " ", "no-event " + lost[2] + " ",
			"not-applied " + unapplied[0] + " " + salesReport, "not-applied " + unapplied[1] + " " + planner,
		}
		slices.Sort(want)
		check := func(args ...string) reconciled {
			t.Helper()
			r, stderr, code := runReconcile(t, server.DSN, append([]string{"--from", "24h"}, args...)...)
			got := r.findings()
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" || code != min(len(want), 1) {
				t.Fatalf("exit code %d, %s\n%s", code, diff, stderr)
			}
			return r
		}
		r := check()
		for _, found := range r.Findings {
			if applied := map[string]int{lost[0]: 2, lost[1]: 1, lost[2]: 2}[found.EventID]; len(found.ProcessedBy) != applied {
				t.Errorf("%+v: want %d consumers that have it", found, applied)
			}
		}
		r = check("--republish")
		if len(r.Republish.Results) != 5 || doneResults(r) != 5 || !r.Republish.DryRun || count(t, db, "outbox_audit") != 0 || count(t, db, "parked_event") != 0 {
			t.Fatalf("a dry run: %+v", r.Republish)
		}
		r = check("--republish", "--yes")
		if len(r.Republish.Results) != 5 || doneResults(r) != 5 {
			t.Fatalf("%+v", r.Republish.Results)
		}
		if n := count(t, db, "outbox_audit WHERE operation IN ('republish.event', 'republish.delivery') AND operator LIKE '%@%'"); n != 5 {
			t.Errorf("%d rows of the audit", n)
		}
		defer runService(t, db)()
		eventually(t, db, 0, "outbox_event WHERE status <> 2")
		eventually(t, db, 0, "consumer_redrive")
		eventually(t, db, 0, "parked_event")
		eventually(t, db, 200_000, "consumed_event WHERE outcome = 1")
		want = []string{}
		check()
		// The effects: of the lost event that one consumer had, and of the deleted dedup rows.
		if n := count(t, db, "notification_job WHERE event_id IN (?, ?)", lost[1], unapplied[1]); n != 2 {
			t.Errorf("%d notifications", n)
		}
		var orders int
		if err := db.QueryRowContext(t.Context(), "SELECT SUM(orders) FROM sales_report").Scan(&orders); err != nil || orders != 1 {
			t.Errorf("%d orders in the report, %v: one was handled anew", orders, err)
		}
	})
}

func doneResults(r reconciled) (n int) {
	for _, res := range r.Republish.Results {
		if res.Done {
			n++
		}
	}
	return n
}

// The payload that source.rebuild makes is the one that was lost, as far as it is kept.
func TestRebuiltPayload(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		id := outbox.NewEventID()
		payload := acceptedPayload(1)
		_, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
			order, err := insertOrder(t.Context(), tx, 1, "one", id)
			if err != nil {
				return err
			}
			payload.OrderID = order
			mustExec(t, tx, "INSERT INTO order_line (order_id, line_no, sku, quantity, unit_price) VALUES (?, 1, 'apple', 2, 5)", order)
			return orderevents.WriteOrderAccepted(t.Context(), tx, id, payload)
		})
		if err != nil {
			t.Fatal(err)
		}
		read := func() (p orderevents.OrderAccepted) {
			t.Helper()
			var text string
			row := db.QueryRowContext(t.Context(), "SELECT payload FROM outbox_event WHERE event_id = ? AND aggregate_id = ? AND event_version = 1 AND schema_version = 2 AND status = 0", id.String(), payload.OrderID)
			if err := row.Scan(&text); err != nil {
				t.Fatal(err)
			}
			if err := p.UnmarshalJSON([]byte(text)); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			return p
		}
		before := read()
		mustExec(t, db, "DELETE FROM outbox_event")
		r, stderr, code := runReconcile(t, server.DSN, "--from", "1h", "--to", "0s", "--republish", "--yes")
		if code != 1 || len(r.Republish.Results) != 1 || doneResults(r) != 1 {
			t.Fatalf("%d %+v\n%s", code, r.Republish, stderr)
		}
		after := read()
		if !after.Total.Amount.Equal(before.Total.Amount) || !after.Lines[0].UnitPrice.Amount.Equal(before.Lines[0].UnitPrice.Amount) || after.AcceptedAt.IsZero() {
			t.Errorf("%v, was %v", after, before)
		}
		after.Total, after.Lines[0].UnitPrice, after.AcceptedAt = before.Total, before.Lines[0].UnitPrice, before.AcceptedAt
		if diff := cmp.Diff(before, after); diff != "" {
			t.Error(diff)
		}

		// What doesn't fit is refused with its place, and nothing is written.
		const secret = "XQZ"
		mustExec(t, db, "DELETE FROM outbox_event")
		mustExec(t, db, "UPDATE orders SET currency = ?", secret)
		r, stderr, _ = runReconcile(t, server.DSN, "--from", "1h", "--to", "0s", "--republish", "--yes")
		if doneResults(r) != 0 || !strings.Contains(r.Republish.Results[0].Note, "/total/currency is no value of its enum") || strings.Contains(r.Republish.Results[0].Note+stderr, secret) {
			t.Errorf("%+v\n%s", r.Republish, stderr)
		}
		if n := count(t, db, "outbox_event"); n != 0 {
			t.Errorf("%d events", n)
		}
	})
}

// Two people republish the same findings at the same moment: each is made anew once.
func TestTwoPeopleRepublish(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		t.Parallel()
		f := filled{begin: time.Now().Add(-2 * time.Hour), step: 100 * time.Millisecond, rows: 300}
		fillOrders(t, server, f)
		db := open(t, server.DSN)
		mustExec(t, db, "DELETE FROM outbox_event ORDER BY event_id LIMIT 40")
		mustExec(t, db, "DELETE FROM consumed_event WHERE consumer_name = 'sales-report' ORDER BY event_id DESC LIMIT 40")
		var people [2]*ops.Service
		var reports [2]*ops.ReconcileReport
		for i := range people {
			people[i] = operations(t, lanesKind, server)
			var err error
			if reports[i], err = people[i].Reconcile(t.Context(), ops.ReconcileOptions{}); err != nil || len(reports[i].Findings) != 80 {
				t.Fatalf("%d findings, %v", len(reports[i].Findings), err)
			}
		}
		var acting sync.WaitGroup
		var done [2]int
		for i, s := range people {
			acting.Go(func() {
				results, err := s.Republish(t.Context(), reports[i], true, ops.Pace{})
				if err != nil || len(results) != 80 {
					t.Errorf("%d results, %v", len(results), err)
				}
				for _, r := range results {
					if r.Done {
						done[i]++
					}
				}
			})
		}
		acting.Wait()
		for what, query := range map[string]string{
			"events": "outbox_event WHERE status = 0", "deliveries": "consumer_redrive", "parked events": "parked_event WHERE kind = 'redelivery'",
			"rows of the audit for events": "outbox_audit WHERE operation = 'republish.event'", "those for deliveries": "outbox_audit WHERE operation = 'republish.delivery'",
		} {
			if n := count(t, db, query); n != 40 {
				t.Errorf("%d %s, want 40", n, what)
			}
		}
		if done[0]+done[1] != 80 {
			t.Errorf("%d and %d were told that they did it", done[0], done[1])
		}
	})
}
