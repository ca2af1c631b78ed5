package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	orderevents "github.com/outboxgen/outboxgen/internal/variants/lanesdelete/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const schema = "outboxgen_soak"

// soak publishes s.events on one database. Published events are deleted at the
// mark, so that the table stays small however many they are.
func soak(ctx context.Context, dsn string, s settings) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, errors.New("it took too long"))
	defer cancel()
	db, drop, err := prepare(ctx, dsn)
	if err != nil {
		return err
	}
	defer drop()

	var published atomic.Int64
	relaying, stopRelays := context.WithCancel(ctx)
	defer stopRelays()
	var relays sync.WaitGroup
	for range s.relays {
		relay, err := outbox.NewRelay(orderevents.NewStore(db), confirmAtOnce{}, &outbox.RelayConfig{
			BatchSize: s.batch,
			Observer:  &outbox.Observer{Settled: func(settled outbox.Settled) { published.Add(int64(settled.Published)) }},
		})
		if err != nil {
			return err
		}
		relays.Go(func() { _ = relay.Run(relaying) })
	}
	watch := newWatch(db, int64(s.events))
	relays.Go(func() { watch.run(relaying, &published) })
	if err := write(ctx, db, s, &published); err != nil {
		return err
	}
	for published.Load() < int64(s.events) {
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d events were published: %w", published.Load(), s.events, context.Cause(ctx))
		}
		time.Sleep(50 * time.Millisecond)
	}
	stopRelays()
	relays.Wait()
	var left int
	if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM outbox_event").Scan(&left); err != nil {
		return err
	}
	if left > 0 || published.Load() != int64(s.events) {
		return fmt.Errorf("%d events are left, and %d of %d were marked", left, published.Load(), s.events)
	}
	return watch.verdict()
}

type confirmAtOnce struct{}

func (confirmAtOnce) Publish(_ context.Context, messages []outbox.Envelope) []error {
	return make([]error, len(messages))
}

// write writes the events, thousands by one statement, and keeps so far ahead of
// the relays that they always have work.
func write(ctx context.Context, db *outbox.DB, s settings, published *atomic.Int64) error {
	const chunk = 5000
	for written := 0; written < s.events; written += chunk {
		for written-int(published.Load()) > s.ahead {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			time.Sleep(5 * time.Millisecond)
		}
		_, err := db.ExecContext(ctx, `INSERT INTO outbox_event
			(event_id, aggregate_type, aggregate_id, event_type, event_version, schema_version, payload, headers, created_at, available_at)
			WITH RECURSIVE digits (d) AS (SELECT 0 UNION ALL SELECT d + 1 FROM digits WHERE d < 9),
			numbers (n) AS (SELECT a.d + 10*b.d + 100*c.d + 1000*e.d FROM digits a, digits b, digits c, digits e)
			SELECT UUID(), 'order', n % 2000, 'order.accepted', ? + n, 1, JSON_OBJECT('note', REPEAT('x', 280)), '{}', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6)
			FROM numbers WHERE n < ?`, written, min(chunk, s.events-written))
		if err != nil {
			return fmt.Errorf("write: %w", err)
		}
		db.Wake()
	}
	return nil
}

func prepare(ctx context.Context, dsn string) (db *outbox.DB, drop func(), err error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, nil, err
	}
	admin, err := mysqldb.OpenConfig(cfg)
	if err != nil {
		return nil, nil, err
	}
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + schema, "CREATE DATABASE " + schema + " CHARACTER SET utf8mb4"} {
		if _, err := admin.ExecContext(ctx, statement); err != nil {
			return nil, nil, err
		}
	}
	cfg = cfg.Clone()
	cfg.DBName = schema
	if db, err = mysqldb.OpenConfig(cfg); err != nil {
		return nil, nil, err
	}
	for _, statement := range orderevents.Schema() {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, nil, err
		}
	}
	return db, func() {
		_, _ = admin.Exec("DROP DATABASE " + schema)
		_ = db.Close()
		_ = admin.Close()
	}, nil
}
