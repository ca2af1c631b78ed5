// Package orderstate is the consumer order-state.
//
// Keeps the newest state of each order.
package orderstate

import (
	"context"
	"errors"

	"github.com/outboxgen/outboxgen/internal/variants/rows/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Handler implements orderevents.OrderStateHandler.
type Handler struct{}

var _ orderevents.OrderStateHandler = (*Handler)(nil)

// HandleOrderAccepted applies order.accepted.
func (h *Handler) HandleOrderAccepted(ctx context.Context, tx *outbox.Tx, m outbox.Message[orderevents.OrderAccepted]) error {
	// To return nil is to acknowledge: the event would count as applied, and its
	// effect would be lost. With an error it comes again.
	return errors.New("not implemented yet: order.accepted")
}

// HandleOrderCancelled applies order.cancelled.
func (h *Handler) HandleOrderCancelled(ctx context.Context, tx *outbox.Tx, m outbox.Message[orderevents.OrderCancelled]) error {
	// To return nil is to acknowledge: the event would count as applied, and its
	// effect would be lost. With an error it comes again.
	return errors.New("not implemented yet: order.cancelled")
}
