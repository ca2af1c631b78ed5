// Package notificationplanner is the consumer notification-planner.
//
// Plans the customer's notifications.
package notificationplanner

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Handler implements orderevents.NotificationPlannerHandler.
type Handler struct{}

var _ orderevents.NotificationPlannerHandler = (*Handler)(nil)

// HandleOrderAccepted applies order.accepted.
func (h *Handler) HandleOrderAccepted(ctx context.Context, tx *outbox.Tx, m outbox.Message[orderevents.OrderAccepted]) error {
	return plan(ctx, tx, "order-accepted", m.EventID(), m.Payload.TenantID, m.Payload.OrderID)
}

// HandleOrderCancelled applies order.cancelled.
func (h *Handler) HandleOrderCancelled(ctx context.Context, tx *outbox.Tx, m outbox.Message[orderevents.OrderCancelled]) error {
	return plan(ctx, tx, "order-cancelled", m.EventID(), m.Payload.TenantID, m.Payload.OrderID)
}

// plan writes what is to be sent; it sends nothing itself, since a message sent
// can't be rolled back. Whoever sends the job hands the event id on as the
// idempotency key.
//
// There is no look whether the job exists: the dedup row, in this transaction,
// has seen to that. A tenant without a channel breaks the foreign key, so that
// the event comes again until somebody has set the channel up.
func plan(ctx context.Context, tx *outbox.Tx, kind string, eventID uuid.UUID, tenantID, orderID int64) error {
	_, err := tx.ExecContext(ctx,
		`INSERT INTO notification_job (tenant_id, order_id, event_id, kind, planned_at)
		VALUES (?, ?, ?, ?, UTC_TIMESTAMP(6))`,
		tenantID, orderID, eventID, kind)
	if err != nil {
		return fmt.Errorf("insert notification job: %w", err)
	}
	return nil
}
