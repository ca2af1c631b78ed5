package main

import (
	"context"

	"github.com/google/uuid"

	lanes "github.com/outboxgen/outboxgen/gen/orderevents"
	rows "github.com/outboxgen/outboxgen/internal/variants/rows/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/purge"
)

// kind is a kind of outbox, as `ordering` chooses it.
type kind struct {
	name      string
	schema    func() []string
	newStore  func(*outbox.DB) outbox.Store
	newPurger func(*outbox.DB, *purge.Config) (*purge.Purger, error)

	// write writes an event of an order in that version.
	write func(ctx context.Context, tx outbox.Transaction, id uuid.UUID, order, version int64) error
}

var (
	lanesKind = kind{
		name: "lanes", schema: lanes.Schema, newPurger: lanes.NewPurger,
		newStore: func(db *outbox.DB) outbox.Store { return lanes.NewStore(db) },
		write: func(ctx context.Context, tx outbox.Transaction, id uuid.UUID, order, version int64) error {
			return lanes.WriteOrderAccepted(ctx, tx, id, lanes.OrderAccepted{
				OrderID: order, OrderVersion: version, TenantID: 1, Total: lanes.Money{Currency: lanes.CurrencyEUR},
			})
		},
	}
	rowsKind = kind{
		name: "rows", schema: rows.Schema, newPurger: rows.NewPurger,
		newStore: func(db *outbox.DB) outbox.Store { return rows.NewStore(db) },
		write: func(ctx context.Context, tx outbox.Transaction, id uuid.UUID, order, version int64) error {
			return rows.WriteOrderAccepted(ctx, tx, id, rows.OrderAccepted{
				OrderID: order, OrderVersion: version, TenantID: 1, Total: rows.Money{Currency: rows.CurrencyEUR},
			})
		},
	}
	kinds = []kind{lanesKind, rowsKind}
)

func kindNamed(name string) (kind, bool) {
	for _, k := range kinds {
		if k.name == name {
			return k, true
		}
	}
	return kind{}, false
}
