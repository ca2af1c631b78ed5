package integration

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/dbtest"
)

// reconcileRows is how many orders TestReconcileBesideAWriter compares. With a million it
// takes minutes, and its figures mean something.
var reconcileRows = flag.Int("reconcile-rows", 20_000, "orders that outboxgen reconcile compares")

// reconcile finds nothing among many rows, whichever way it goes through the orders, while a
// writer goes on beside it. What both took is logged: nothing is promised of it here.
func TestReconcileBesideAWriter(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		f := filled{begin: time.Now().Add(-20 * time.Hour), rows: *reconcileRows}
		f.step = max(time.Millisecond, (18 * time.Hour / time.Duration(f.rows)).Truncate(time.Millisecond))
		begin := time.Now()
		db := fillOrders(t, server, f)
		t.Logf("%d orders filled in %s", f.rows, time.Since(begin).Round(time.Second))
		for _, way := range []string{"by the primary key", "by created_at"} {
			if way == "by created_at" {
				mustExec(t, db, "CREATE INDEX ix_orders_created_at ON orders (created_at)")
			}
			alone := writing(t, db, func() { <-time.After(time.Duration(max(1, min(f.rows/100_000, 10))) * time.Second) })
			var took time.Duration
			beside := writing(t, db, func() {
				begin := time.Now()
				r, stderr, code := runReconcile(t, server.DSN, "--from", "24h")
				took = time.Since(begin)
				if code != 0 {
					t.Errorf("%d %v\n%s", code, r.findings(), stderr)
				}
			})
			t.Logf("%s: %s; a writer alone made %.0f transactions a second, beside it %.0f, %.2f of that", way, took.Round(10*time.Millisecond), alone, beside, beside/max(alone, 1))
		}
	})
}

// writing measures a writer's transactions a second while do runs: an order, and its event.
func writing(t testing.TB, db *sql.DB, do func()) float64 {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var done atomic.Int64
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := writeOrder(context.WithoutCancel(ctx), db); err != nil {
				ended <- err
				return
			}
			done.Add(1)
		}
		ended <- nil
	}()
	begin := time.Now()
	do()
	n, took := done.Load(), time.Since(begin)
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the writer: %v", err)
	}
	return float64(n) / took.Seconds()
}

func writeOrder(ctx context.Context, db *sql.DB) error {
	id := uuid.Must(uuid.NewV7()).String()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it was committed, or the error is told
	done, err := tx.ExecContext(ctx, "INSERT INTO orders (tenant_id, request_id, status, currency, total, acceptance_event_id, created_at) VALUES (2, ?, 'accepted', 'EUR', 10, ?, UTC_TIMESTAMP(6))", id, id)
	if err != nil {
		return err
	}
	order, err := done.LastInsertId()
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, event_version, schema_version, payload, headers, created_at, available_at)
VALUES (?, 'order', ?, 'order.accepted', 1, 2, ?, '{}', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))`, id, fmt.Sprint(order), payloadOfOne)
	if err != nil {
		return err
	}
	return tx.Commit()
}
