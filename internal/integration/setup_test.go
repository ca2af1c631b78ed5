// Package integration tests the generated code, the runtime and real servers together.
package integration

import (
	"context"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/outboxgen/outboxgen/example/schema"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// each runs fn on both databases, with the example's tables and the outbox's.
func each(t *testing.T, fn func(t *testing.T, server dbtest.Database, db *outbox.DB)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		t.Parallel()
		server.Exec(t, schema.Statements()...)
		server.Exec(t, orderevents.Schema()...)
		fn(t, server, open(t, server.DSN))
	})
}

func open(t testing.TB, dsn string) *outbox.DB {
	t.Helper()
	db, err := mysqldb.Open(dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// via returns the database's DSN with another address, a proxy's, and parameters.
func via(t testing.TB, server dbtest.Database, addr string, change func(*mysql.Config)) string {
	t.Helper()
	cfg, err := mysql.ParseDSN(server.DSN)
	if err != nil {
		t.Fatal(err)
	}
	if addr != "" {
		cfg.Addr = addr
	}
	if change != nil {
		change(cfg)
	}
	return cfg.FormatDSN()
}

// insertOrder inserts a business row, as an order service would.
func insertOrder(ctx context.Context, tx outbox.DBTX, tenant int64, request string, event uuid.UUID) (int64, error) {
	res, err := tx.ExecContext(ctx,
		`INSERT INTO orders (tenant_id, request_id, status, currency, total, acceptance_event_id, created_at)
		VALUES (?, ?, 'accepted', 'EUR', 10, ?, UTC_TIMESTAMP(6))`, tenant, request, event)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

func acceptedPayload(orderID int64) orderevents.OrderAccepted {
	return orderevents.OrderAccepted{
		OrderID: orderID, OrderVersion: 1, TenantID: 1,
		Lines: []orderevents.LineItem{{
			SKU: "apple", Quantity: 2,
			UnitPrice: orderevents.Money{Amount: decimal.RequireFromString("5.00"), Currency: orderevents.CurrencyEUR},
		}},
		Total: orderevents.Money{Amount: decimal.RequireFromString("10.00"), Currency: orderevents.CurrencyEUR},
	}
}

// placeOrder inserts an order and writes its event.
func placeOrder(ctx context.Context, tx outbox.Transaction, tenant int64, request string, event uuid.UUID) error {
	id, err := insertOrder(ctx, tx, tenant, request, event)
	if err != nil {
		return err
	}
	return orderevents.WriteOrderAccepted(ctx, tx, event, acceptedPayload(id))
}

// writeEvents writes n events, each of an aggregate of its own, and returns their ids.
func writeEvents(t testing.TB, db *outbox.DB, n int) []uuid.UUID {
	t.Helper()
	ids := make([]uuid.UUID, n)
	outcome, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
		for i := range ids {
			ids[i] = outbox.NewEventID()
			if err := orderevents.WriteOrderAccepted(t.Context(), tx, ids[i], acceptedPayload(int64(i+1))); err != nil {
				return err
			}
		}
		return nil
	})
	if outcome != outbox.Committed {
		t.Fatal(outcome, err)
	}
	return ids
}

func count(t testing.TB, db *outbox.DB, query string, args ...any) int {
	t.Helper()
	var n int
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func state(t testing.TB, db *outbox.DB, id uuid.UUID) outbox.EventState {
	t.Helper()
	s, err := orderevents.LookupEvent(t.Context(), db, id)
	if err != nil {
		t.Fatalf("look up %s: %v", id, err)
	}
	return s
}

func mustExec(t testing.TB, db outbox.DBTX, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}
