package main

import (
	"context"
	"fmt"
	"time"
)

// rowsDeleted: events were deleted before anybody published them, and a consumer's work of one event with
// its dedup row.
func rowsDeleted(ctx context.Context, w *world) error {
	if err := w.order(ctx, 1, 10); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 10, jobs); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 10, reported); err != nil {
		return err
	}
	if _, err := w.outboxgen(ctx, 0, "pause", "--reason", "rows are about to be lost"); err != nil {
		return err
	}
	if err := w.pauseHolds(ctx); err != nil {
		return err
	}
	if err := w.order(ctx, 2, 3); err != nil {
		return err
	}
	if err := w.exec(ctx, "DELETE FROM outbox_event WHERE status = 0"); err != nil {
		return err
	}
	if _, err := w.outboxgen(ctx, 0, "resume"); err != nil {
		return err
	}
	var id string
	if err := w.db.QueryRowContext(ctx, "SELECT MIN(event_id) FROM notification_job").Scan(&id); err != nil {
		return err
	}
	err := w.exec(ctx, fmt.Sprintf(`DELETE FROM notification_job WHERE event_id = '%s';
DELETE FROM consumed_event WHERE consumer_name = 'notification-planner' AND event_id = '%[1]s'`, id))
	if err != nil {
		return err
	}
	// The customer on the phone knows the request of an order.
	if _, err := w.outboxgen(ctx, 0, "find", "--request", "2,r-11"); err != nil {
		return err
	}
	if err := w.says(ctx, 0, nil, "find", "--aggregate", "order/1"); err != nil {
		return err
	}
	if _, err := w.outboxgen(ctx, 1, "consumed", "notification-planner", id); err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // longer than the delay of the reconciliation
	if err := w.reconcile(ctx, 1); err != nil {
		return err
	}
	if err := w.reconcile(ctx, 1, "--republish"); err != nil {
		return err
	}
	if err := w.reconcile(ctx, 1, "--republish", "--yes"); err != nil {
		return err
	}
	if err := w.mended(ctx); err != nil {
		return err
	}
	_, err = w.outboxgen(ctx, 0, "show", id)
	return err
}
