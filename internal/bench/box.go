package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// box is an outbox in a schema of its own, and a template to fill it from.
type box struct {
	db     *outbox.DB
	schema string
	events int
}

func newBox(ctx context.Context, dsn string, events, size int) (*box, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	admin, err := mysqldb.OpenConfig(cfg)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	b := &box{schema: fmt.Sprintf("outboxgen_bench_%d", size), events: events}
	for _, s := range []string{"DROP DATABASE IF EXISTS " + b.schema, "CREATE DATABASE " + b.schema + " CHARACTER SET utf8mb4"} {
		if _, err := admin.ExecContext(ctx, s); err != nil {
			return nil, err
		}
	}
	cfg.DBName = b.schema
	if b.db, err = mysqldb.OpenConfig(cfg); err != nil {
		return nil, err
	}
	for _, s := range append(orderevents.Schema(), "CREATE TABLE template LIKE outbox_event") {
		if _, err := b.db.ExecContext(ctx, s); err != nil {
			return nil, err
		}
	}
	return b, b.fillTemplate(ctx, size)
}

func (b *box) close() {
	_, _ = b.db.Exec("DROP DATABASE " + b.schema)
	_ = b.db.Close()
}

// fillTemplate writes events as a service would: ids that grow with time, one due
// after the other.
func (b *box) fillTemplate(ctx context.Context, size int) error {
	const chunk = 500
	payload := `{"note": "` + strings.Repeat("x", max(0, size-len(`{"note": ""}`))) + `"}`
	row := `(?, 'order', ?, 'order.accepted', 1, 1, ?, '{}', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND)`
	for n := 0; n < b.events; n += chunk {
		size := min(chunk, b.events-n)
		args := make([]any, 0, 4*size)
		for i := range size {
			args = append(args, outbox.NewEventID(), n+i, payload, b.events-n-i)
		}
		_, err := b.db.ExecContext(ctx, `INSERT INTO template (event_id, aggregate_type, aggregate_id, event_type,
			event_version, schema_version, payload, headers, created_at, available_at) VALUES `+
			strings.TrimSuffix(strings.Repeat(row+",", size), ","), args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// refill makes the outbox as it was at the start.
func (b *box) refill(ctx context.Context) error {
	for _, s := range []string{
		"TRUNCATE outbox_event",
		"INSERT INTO outbox_event SELECT * FROM template ORDER BY event_id",
		"ANALYZE TABLE outbox_event",
	} {
		if _, err := b.db.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (b *box) waiting(ctx context.Context) (n int, err error) {
	err = b.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM outbox_event WHERE status = 0").Scan(&n)
	return n, err
}
