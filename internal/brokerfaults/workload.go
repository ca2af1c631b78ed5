package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// event is one that was committed.
type event struct {
	id        uuid.UUID
	aggregate int64
	version   int64
	typ       string
}

// eventsPerAggregate is about how many events an aggregate has.
const eventsPerAggregate = 50

// newEvents makes n events, the aggregates in turns. Every cancelEvery-th is
// order.cancelled; 0 for none.
func newEvents(n, cancelEvery int) []event {
	aggregates := max(n/eventsPerAggregate, 4)
	all := make([]event, n)
	for i := range all {
		all[i] = event{
			id: outbox.NewEventID(), aggregate: int64(i%aggregates) + 1, version: int64(i/aggregates) + 1,
			typ: orderevents.EventTypeOrderAccepted,
		}
		if cancelEvery > 0 && i%cancelEvery == cancelEvery-1 {
			all[i].typ = orderevents.EventTypeOrderCancelled
		}
	}
	return all
}

const (
	writers     = 4
	eventsPerTx = 50
)

// write commits the events, those of an aggregate one after the other.
func write(ctx context.Context, db *outbox.DB, all []event) error {
	parts := make([][]event, writers)
	for _, e := range all {
		w := e.aggregate % writers
		parts[w] = append(parts[w], e)
	}
	errs := make(chan error, writers)
	var running sync.WaitGroup
	for _, part := range parts {
		running.Go(func() {
			for chunk := range slices.Chunk(part, eventsPerTx) {
				_, err := outbox.InTx(ctx, db, func(tx *outbox.Tx) error { return writeChunk(ctx, tx, chunk) })
				if err != nil {
					errs <- fmt.Errorf("a writer failed: %w", err)
					return
				}
			}
		})
	}
	running.Wait()
	close(errs)
	return <-errs
}

func writeChunk(ctx context.Context, tx *outbox.Tx, chunk []event) error {
	for _, e := range chunk {
		var err error
		if e.typ == orderevents.EventTypeOrderCancelled {
			err = orderevents.WriteOrderCancelled(ctx, tx, e.id, orderevents.OrderCancelled{
				OrderID: e.aggregate, OrderVersion: e.version, TenantID: 1,
				Reason: orderevents.OrderCancelledReasonCustomer,
			})
		} else {
			err = orderevents.WriteOrderAccepted(ctx, tx, e.id, orderevents.OrderAccepted{
				OrderID: e.aggregate, OrderVersion: e.version, TenantID: 1,
				Total: orderevents.Money{Currency: orderevents.CurrencyEUR},
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitDrained returns when no event waits any longer, or the time is over.
func awaitDrained(ctx context.Context, db *outbox.DB, within time.Duration) error {
	for deadline := time.Now().Add(within); ; {
		var n int
		if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM outbox_event WHERE status = 0").Scan(&n); err != nil {
			return err
		}
		if n == 0 || time.Now().After(deadline) {
			return nil // the verdict tells what is left
		}
		time.Sleep(50 * time.Millisecond) // what is waited for is a row
	}
}
