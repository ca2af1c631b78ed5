// Package example proves the order service's events against faults.
package example

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/shopspring/decimal"

	"github.com/outboxgen/outboxgen/example/consumers/notificationplanner"
	"github.com/outboxgen/outboxgen/example/consumers/salesreport"
	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/example/orders"
	"github.com/outboxgen/outboxgen/example/schema"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest"
)

func TestVerify(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) { // your own: outboxtest.ScratchDatabase(t, "user:password@tcp(host:port)/")
		t.Parallel()
		outboxtest.Verify(t, config(t, server.DSN))
	})
}

func config(t *testing.T, dsn string) outboxtest.Config {
	return outboxtest.Config{
		DSN:    dsn,
		Schema: tables(),
		Write: func(ctx context.Context, db *outbox.DB, r outboxtest.Request) (outbox.Outcome, error) {
			return outcome(accept(ctx, db, r, "apple"))
		},
		Refused: func(ctx context.Context, db *outbox.DB, r outboxtest.Request) error {
			return accept(ctx, db, r, "sold-out")
		},
		Business: "SELECT request_id, acceptance_event_id FROM orders",
		Reconcile: func(ctx context.Context, db *outbox.DB, r outboxtest.Request) (outbox.Reconciled, error) {
			return orderevents.ReconcileOrderAccepted(ctx, db, r.Number, r.ID)
		},
		NewStore: func(db *outbox.DB) outbox.Store { return orderevents.NewStore(db) },
		Consumers: []outboxtest.Consumer{
			{
				New: func(db *outbox.DB) outbox.Handler {
					return orderevents.NewNotificationPlanner(db, &notificationplanner.Handler{}, &upcasts.Upcaster{}, nil)
				},
				Effects: counting("SELECT COUNT(*) FROM notification_job WHERE tenant_id = ?"),
			},
			{
				New: func(db *outbox.DB) outbox.Handler {
					return orderevents.NewSalesReport(db, &salesreport.Handler{}, &upcasts.Upcaster{}, nil)
				},
				Effects: counting("SELECT COALESCE(SUM(orders), 0) FROM sales_report WHERE tenant_id = ?"),
			},
		},
		Private: []string{note},
		Record:  filepath.Join(t.TempDir(), "repeatable-delivery-verification.yaml"), // your own: where you keep it
	}
}

const note = "please ring twice"

// tables are everything that the service needs: each request has a tenant of its own, so that
// its effects can be told apart.
func tables() []string {
	statements := append(schema.Statements(), orderevents.Schema()...)
	statements = append(statements, "INSERT INTO stock (sku, available) VALUES ('apple', 1000), ('sold-out', 0)")
	for tenant := range 50 {
		statements = append(statements, fmt.Sprintf("INSERT INTO notification_channel (tenant_id, channel) VALUES (%d, 'mail')", tenant))
	}
	return statements
}

func accept(ctx context.Context, db *outbox.DB, r outboxtest.Request, sku string) error {
	price := orderevents.Money{Amount: decimal.RequireFromString("1.50"), Currency: orderevents.CurrencyEUR}
	text := note
	_, _, err := orders.NewService(db).Accept(ctx, orders.Request{
		TenantID: r.Number, RequestID: r.ID, Currency: orderevents.CurrencyEUR, Note: &text,
		Lines: []orderevents.LineItem{{SKU: sku, Quantity: 2, UnitPrice: price}},
	})
	return err
}

// outcome says what the service's answer means.
func outcome(err error) (outbox.Outcome, error) {
	switch {
	case err == nil:
		return outbox.Committed, nil
	case errors.Is(err, orders.ErrAgain):
		return outbox.Unknown, err
	default:
		return outbox.RolledBack, err
	}
}

func counting(query string) func(context.Context, *outbox.DB, outboxtest.Request) (int, error) {
	return func(ctx context.Context, db *outbox.DB, r outboxtest.Request) (n int, err error) {
		err = db.QueryRowContext(ctx, query, r.Number).Scan(&n)
		return n, err
	}
}
