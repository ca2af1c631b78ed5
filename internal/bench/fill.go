package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// The states of an event in the table.
const (
	pending   = 0
	published = 2
	dead      = 3
)

// load says what rows to put into the staged table.
type load struct {
	status     int
	events     int
	aggregates int    // that they belong to, in turn
	prefix     string // of the aggregates' ids
	size       int    // bytes of payload
}

// bytesPerFill bounds a transaction that fills.
const bytesPerFill = 64 << 20

// fill adds rows to the staged table. The server makes them itself. Event ids grow
// with time as a service's do: five to a millisecond, in no order within it.
func (b *box) fill(ctx context.Context, r load) error {
	const perMilli = 5
	span := int64(r.events/perMilli + 1)
	if b.nextMilli == 0 {
		b.nextMilli = time.Now().Add(-24 * time.Hour).UnixMilli()
	}
	first := b.nextMilli
	b.nextMilli += span
	note := max(0, r.size-len(`{"note": ""}`))
	chunk := max(1, bytesPerFill/(r.size+400)/perNumber) * perNumber
	for from := 0; from < r.events; from += chunk {
		to := min(from+chunk, r.events)
		_, err := b.admin.ExecContext(ctx, `
INSERT INTO `+staged+` (event_id, aggregate_type, aggregate_id, event_type, event_version, schema_version,
  payload, headers, created_at, status, available_at)
SELECT
  CONCAT(SUBSTR(milli, 1, 8), '-', SUBSTR(milli, 9, 4), '-7', SUBSTR(random, 1, 3), '-8', SUBSTR(random, 4, 3), '-', SUBSTR(random, 7, 12)),
  'order', CONCAT(?, n % ?), 'order.accepted', n DIV ? + 1, 1,
  CONCAT('{"note": "', REPEAT('x', ?), '"}'), '{}', due, ?, due
FROM (
  SELECT n, LPAD(LOWER(HEX(? + n DIV ?)), 12, '0') AS milli, SHA2(CONCAT(?, n), 256) AS random,
    UTC_TIMESTAMP(6) - INTERVAL (? - n) MICROSECOND AS due
  FROM (
    SELECT thousands.n * ? + ones.n AS n
    FROM bench_number thousands JOIN bench_number ones
    WHERE thousands.n >= ? AND thousands.n < ? AND ones.n < ?
  ) numbers
  WHERE n < ?
) numbered
ORDER BY n`,
			r.prefix, r.aggregates, r.aggregates, note, r.status,
			first, perMilli, first, r.events,
			perNumber, from/perNumber, (to+perNumber-1)/perNumber, perNumber, to)
		if err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	return nil
}

// The numbers 0 to 4999, to count up to five million with.
const (
	numbers   = 5000
	perNumber = 1000
)

func numbersInsert() string {
	var s strings.Builder
	s.WriteString("INSERT INTO bench_number VALUES (0)")
	for n := 1; n < numbers; n++ {
		fmt.Fprintf(&s, ",(%d)", n)
	}
	return s.String()
}

// stage puts rows into the staged table, after what is there or in its place. What
// that leaves to be written to the disk is written: it would slow down what is measured.
func (b *box) stage(ctx context.Context, keep bool, all ...load) error {
	if !keep {
		if err := b.exec(ctx, "TRUNCATE "+staged); err != nil {
			return err
		}
	}
	for _, r := range all {
		if err := b.fill(ctx, r); err != nil {
			return err
		}
	}
	return b.exec(ctx, "ANALYZE TABLE "+staged, "FLUSH TABLES "+staged+" FOR EXPORT", "UNLOCK TABLES")
}
