// Package salesreport is the consumer sales-report.
//
// Adds up accepted orders by tenant, day and currency.
package salesreport

import (
	"context"
	"fmt"
	"time"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Handler implements orderevents.SalesReportHandler.
type Handler struct{}

var _ orderevents.SalesReportHandler = (*Handler)(nil)

// HandleOrderAccepted applies order.accepted.
//
// To add is not idempotent: applied twice it would count twice. That is what the
// dedup row, in this transaction, is for.
func (h *Handler) HandleOrderAccepted(ctx context.Context, tx *outbox.Tx, m outbox.Message[orderevents.OrderAccepted]) error {
	order := m.Payload
	// The day of the fact, not of today: an event may come late.
	day := order.AcceptedAt.UTC().Format(time.DateOnly)
	_, err := tx.ExecContext(ctx,
		`INSERT INTO sales_report (tenant_id, day, currency, orders, total)
		VALUES (?, ?, ?, 1, ?)
		ON DUPLICATE KEY UPDATE orders = orders + 1, total = total + ?`,
		order.TenantID, day, string(order.Total.Currency), order.Total.Amount, order.Total.Amount)
	if err != nil {
		return fmt.Errorf("add to the sales report: %w", err)
	}
	return nil
}
