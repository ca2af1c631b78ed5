package main

import (
	"context"
	"time"

	"github.com/google/uuid"

	lanesgen "github.com/outboxgen/outboxgen/gen/orderevents"
	lanesdeletegen "github.com/outboxgen/outboxgen/internal/variants/lanesdelete/gen/orderevents"
	rowsgen "github.com/outboxgen/outboxgen/internal/variants/rows/gen/orderevents"
	rowsdeletegen "github.com/outboxgen/outboxgen/internal/variants/rowsdelete/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// kind is a kind of outbox, as `ordering` and `keep_published` choose it.
type kind struct {
	name    string // of its schema too
	text    string // for people
	byLane  bool   // ordering: aggregate
	queries string // where the statements are that sqlc reads

	schema   func() []string
	newStore func(*outbox.DB) outbox.Store
	write    func(ctx context.Context, tx outbox.Transaction, id uuid.UUID, order int64, note string) error
}

var (
	aggregate = &kind{
		name: "lanes", text: "ordering: aggregate", byLane: true, queries: "queries",
		schema:   lanesgen.Schema,
		newStore: func(db *outbox.DB) outbox.Store { return lanesgen.NewStore(db) },
		write: func(ctx context.Context, tx outbox.Transaction, id uuid.UUID, order int64, note string) error {
			return lanesgen.WriteOrderAccepted(ctx, tx, id, lanesgen.OrderAccepted{
				OrderID: order, OrderVersion: 1, Total: lanesgen.Money{Currency: lanesgen.CurrencyEUR},
				Note: &note, AcceptedAt: outbox.TimestampOf(time.Now()),
			})
		},
	}
	none = &kind{
		name: "rows", text: "ordering: none", queries: "internal/variants/rows/queries",
		schema:   rowsgen.Schema,
		newStore: func(db *outbox.DB) outbox.Store { return rowsgen.NewStore(db) },
		write: func(ctx context.Context, tx outbox.Transaction, id uuid.UUID, order int64, note string) error {
			return rowsgen.WriteOrderAccepted(ctx, tx, id, rowsgen.OrderAccepted{
				OrderID: order, OrderVersion: 1, Total: rowsgen.Money{Currency: rowsgen.CurrencyEUR},
				Note: &note, AcceptedAt: outbox.TimestampOf(time.Now()),
			})
		},
	}
	aggregateDelete = &kind{
		name: "lanesdelete", text: "ordering: aggregate, keep_published: none", byLane: true, queries: "internal/variants/lanesdelete/queries",
		schema:   lanesdeletegen.Schema,
		newStore: func(db *outbox.DB) outbox.Store { return lanesdeletegen.NewStore(db) },
	}
	noneDelete = &kind{
		name: "rowsdelete", text: "ordering: none, keep_published: none", queries: "internal/variants/rowsdelete/queries",
		schema:   rowsdeletegen.Schema,
		newStore: func(db *outbox.DB) outbox.Store { return rowsdeletegen.NewStore(db) },
	}
)
