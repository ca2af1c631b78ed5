package main

import (
	"context"
	"errors"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

var errOwnChoice = errors.New("the writer rolls back")

// write writes events in transactions of one to five until done. No two writers
// have an aggregate in common: if one waits, it is for the outbox.
func (c *contention) write(ctx context.Context, done <-chan struct{}, db *outbox.DB, writer int) {
	const aggregates = 20
	versions := [aggregates]int64{}
	for n := 0; !over(done); n++ {
		hold := time.Duration(0)
		switch {
		case writer == 0:
			hold = longHold
		case n%20 == writer%20:
			hold = shortHold
		}
		fails := n%10 == 9
		before := versions
		_, err := outbox.InTx(ctx, db, func(tx *outbox.Tx) error {
			for i := range 1 + n%5 {
				a := (n + i) % aggregates
				versions[a]++
				if err := c.kind.write(ctx, tx, outbox.NewEventID(), int64(writer*aggregates+a+1), versions[a]); err != nil {
					return err
				}
			}
			time.Sleep(hold)
			if fails {
				return errOwnChoice
			}
			return nil
		})
		switch {
		case err == nil:
			c.report.Committed.Add(1)
			if hold > 0 {
				c.report.Held.Add(1)
			}
			continue
		case errors.Is(err, errOwnChoice):
			c.report.RolledBack.Add(1)
		default:
			c.report.failed(db, "writer", err)
		}
		versions = before
	}
}

// age writes events that were published long ago, for the purger.
func (c *contention) age(ctx context.Context, done <-chan struct{}, db *outbox.DB) {
	for !over(done) {
		_, err := db.ExecContext(ctx, `INSERT INTO outbox_event
			(event_id, aggregate_type, aggregate_id, event_type, event_version, schema_version, payload, headers,
			 created_at, status, available_at, published_at)
			WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 300)
			SELECT UUID(), 'order', n % 320 + 1, 'order.accepted', n, 1, '{}', '{}', old, 2, old, old
			FROM (SELECT n, UTC_TIMESTAMP(6) - INTERVAL 30 DAY AS old FROM numbers) aged`)
		if err != nil {
			c.report.failed(db, "writer of old events", err)
		}
		select {
		case <-done:
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
