package integration

import (
	"context"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	lanesdelete "github.com/outboxgen/outboxgen/internal/variants/lanesdelete/gen/orderevents"
	rows "github.com/outboxgen/outboxgen/internal/variants/rows/gen/orderevents"
	rowsdelete "github.com/outboxgen/outboxgen/internal/variants/rowsdelete/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// kind is a generated package: the example's events with some setting of the outbox.
type kind struct {
	name    string
	ordered bool // ordering: aggregate
	deletes bool // keep_published: none

	schema   func() []string
	newStore func(*outbox.DB) outbox.Store
	lookup   func(context.Context, outbox.DBTX, uuid.UUID) (outbox.EventState, error)

	// write writes an event of an order in that version.
	write func(ctx context.Context, tx outbox.Transaction, id uuid.UUID, order, version int64, opts ...outbox.WriteOptions) error
}

var (
	lanesKind = kind{
		name: "lanes", ordered: true, schema: orderevents.Schema, lookup: orderevents.LookupEvent,
		newStore: func(db *outbox.DB) outbox.Store { return orderevents.NewStore(db) },
		write: func(ctx context.Context, tx outbox.Transaction, id uuid.UUID, order, version int64, opts ...outbox.WriteOptions) error {
			p := acceptedPayload(order)
			p.OrderVersion = version
			return orderevents.WriteOrderAccepted(ctx, tx, id, p, opts...)
		},
	}
	rowsKind = kind{
		name: "rows", schema: rows.Schema, lookup: rows.LookupEvent,
		newStore: func(db *outbox.DB) outbox.Store { return rows.NewStore(db) },
		write: func(ctx context.Context, tx outbox.Transaction, id uuid.UUID, order, version int64, opts ...outbox.WriteOptions) error {
			return rows.WriteOrderAccepted(ctx, tx, id, rows.OrderAccepted{
				OrderID: order, OrderVersion: version, TenantID: 1, Lines: []rows.LineItem{},
				Total: rows.Money{Amount: decimal.RequireFromString("10.00"), Currency: rows.CurrencyEUR},
			}, opts...)
		},
	}
	lanesDeleteKind = kind{
		name: "lanes, deleting", ordered: true, deletes: true, schema: lanesdelete.Schema, lookup: lanesdelete.LookupEvent,
		newStore: func(db *outbox.DB) outbox.Store { return lanesdelete.NewStore(db) },
		write: func(ctx context.Context, tx outbox.Transaction, id uuid.UUID, order, version int64, opts ...outbox.WriteOptions) error {
			return lanesdelete.WriteOrderAccepted(ctx, tx, id, lanesdelete.OrderAccepted{
				OrderID: order, OrderVersion: version, TenantID: 1, Lines: []lanesdelete.LineItem{},
				Total: lanesdelete.Money{Amount: decimal.RequireFromString("10.00"), Currency: lanesdelete.CurrencyEUR},
			}, opts...)
		},
	}
	rowsDeleteKind = kind{
		name: "rows, deleting", deletes: true, schema: rowsdelete.Schema, lookup: rowsdelete.LookupEvent,
		newStore: func(db *outbox.DB) outbox.Store { return rowsdelete.NewStore(db) },
		write: func(ctx context.Context, tx outbox.Transaction, id uuid.UUID, order, version int64, opts ...outbox.WriteOptions) error {
			return rowsdelete.WriteOrderAccepted(ctx, tx, id, rowsdelete.OrderAccepted{
				OrderID: order, OrderVersion: version, TenantID: 1, Lines: []rowsdelete.LineItem{},
				Total: rowsdelete.Money{Amount: decimal.RequireFromString("10.00"), Currency: rowsdelete.CurrencyEUR},
			}, opts...)
		},
	}
	kinds = []kind{lanesKind, rowsKind, lanesDeleteKind, rowsDeleteKind}
)
