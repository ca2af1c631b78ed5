package sim

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	rows "github.com/outboxgen/outboxgen/internal/variants/rows/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// effect is what a handler does.
type effect func(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error

// variant is a generated package.
type variant struct {
	schema   []string
	newStore func(*outbox.DB) outbox.Store
	lookup   func(context.Context, outbox.DBTX, uuid.UUID) (outbox.EventState, error)

	// write writes the event of an order's version, and returns its payload.
	write func(ctx context.Context, tx outbox.Transaction, id uuid.UUID, order, version int64) (any, error)

	consumer func(role string, db *outbox.DB, do effect, cfg *outbox.ConsumerConfig) *outbox.Consumer
	names    []string // the consumers'
}

// canary is in every payload, and must be seen nowhere else.
const canary = "canary-4711"

var acceptedAt = outbox.TimestampOf(time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC))

var lanes = variant{
	schema:   orderevents.Schema(),
	newStore: func(db *outbox.DB) outbox.Store { return orderevents.NewStore(db) },
	lookup:   orderevents.LookupEvent,
	write: func(ctx context.Context, tx outbox.Transaction, id uuid.UUID, order, version int64) (any, error) {
		note := canary
		p := orderevents.OrderAccepted{
			OrderID: order, OrderVersion: version, TenantID: tenant, Lines: []orderevents.LineItem{}, Note: &note,
			Total:      orderevents.Money{Amount: decimal.New(version, 0), Currency: orderevents.CurrencyEUR},
			AcceptedAt: acceptedAt,
		}
		return p, orderevents.WriteOrderAccepted(ctx, tx, id, p)
	},
	consumer: func(role string, db *outbox.DB, do effect, cfg *outbox.ConsumerConfig) *outbox.Consumer {
		if role == "report-1" {
			return orderevents.NewSalesReport(db, laneHandler{do}, &upcasts.Upcaster{}, cfg)
		}
		return orderevents.NewNotificationPlanner(db, laneHandler{do}, &upcasts.Upcaster{}, cfg)
	},
	names: []string{orderevents.ConsumerNameNotificationPlanner, orderevents.ConsumerNameSalesReport},
}

type laneHandler struct{ do effect }

func (h laneHandler) HandleOrderAccepted(ctx context.Context, tx *outbox.Tx, m outbox.Message[orderevents.OrderAccepted]) error {
	return h.do(ctx, tx, m.Envelope)
}

func (h laneHandler) HandleOrderCancelled(ctx context.Context, tx *outbox.Tx, m outbox.Message[orderevents.OrderCancelled]) error {
	return h.do(ctx, tx, m.Envelope)
}

var unordered = variant{
	schema:   rows.Schema(),
	newStore: func(db *outbox.DB) outbox.Store { return rows.NewStore(db) },
	lookup:   rows.LookupEvent,
	write: func(ctx context.Context, tx outbox.Transaction, id uuid.UUID, order, version int64) (any, error) {
		note := canary
		p := rows.OrderAccepted{
			OrderID: order, OrderVersion: version, TenantID: tenant, Lines: []rows.LineItem{}, Note: &note,
			Total:      rows.Money{Amount: decimal.New(version, 0), Currency: rows.CurrencyEUR},
			AcceptedAt: acceptedAt,
		}
		return p, rows.WriteOrderAccepted(ctx, tx, id, p)
	},
	consumer: func(_ string, db *outbox.DB, do effect, cfg *outbox.ConsumerConfig) *outbox.Consumer {
		return rows.NewOrderState(db, rowHandler{do}, cfg)
	},
	names: []string{rows.ConsumerNameOrderState},
}

type rowHandler struct{ do effect }

func (h rowHandler) HandleOrderAccepted(ctx context.Context, tx *outbox.Tx, m outbox.Message[rows.OrderAccepted]) error {
	return h.do(ctx, tx, m.Envelope)
}

func (h rowHandler) HandleOrderCancelled(ctx context.Context, tx *outbox.Tx, m outbox.Message[rows.OrderCancelled]) error {
	return h.do(ctx, tx, m.Envelope)
}
