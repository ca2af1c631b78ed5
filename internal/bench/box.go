package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/runtime/mysqldb"
)

// box is an outbox in a schema of its own. Its table outbox_event stays empty, so
// that relays can start on it, until what a run drains was put together in a
// second table, which then takes its place at once.
type box struct {
	kind       *kind
	statements *statements
	cfg        *mysql.Config
	admin      *sql.DB // one connection, patient, whose statements are not in the binary log
	schema     string

	nextMilli int64 // of the next event ids
}

// How long a statement of ours may take that fills a table.
const patience = 5 * time.Minute

// newBox makes the tables of a kind in a schema named after it and after what it is for.
func newBox(ctx context.Context, dsn string, k *kind, purpose string) (*box, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	b := &box{kind: k, cfg: cfg, schema: "outboxgen_bench_" + k.name + "_" + purpose}
	if b.statements, err = readStatements(k); err != nil {
		return nil, err
	}
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	err = b.exec(ctx, "DROP DATABASE IF EXISTS "+b.schema, "CREATE DATABASE "+b.schema+" CHARACTER SET utf8mb4")
	_ = b.admin.Close()
	if err != nil {
		return nil, err
	}
	cfg.DBName = b.schema
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	statements := append(k.schema(),
		"CREATE TABLE "+staged+" LIKE outbox_event",
		"CREATE TABLE bench_number (n INT NOT NULL PRIMARY KEY)",
		numbersInsert())
	if k.byLane {
		statements = append(statements, string(b.statements.addLanes))
	}
	if err := b.exec(ctx, statements...); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// open opens b.admin. If the user may not choose what is logged, all is.
func (b *box) open(ctx context.Context) error {
	cfg := b.cfg.Clone()
	cfg.ReadTimeout, cfg.WriteTimeout = patience, patience
	cfg.Params = map[string]string{"sql_log_bin": "0"}
	for {
		admin, err := mysqldb.OpenConfig(cfg)
		if err != nil {
			return err
		}
		admin.SetMaxOpenConns(1)
		b.admin = admin.DB
		err = admin.PingContext(ctx)
		if err == nil {
			return nil
		}
		_ = admin.Close()
		if cfg.Params == nil {
			return err
		}
		cfg.Params = nil
	}
}

func (b *box) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := b.admin.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", firstWords(s), err)
		}
	}
	return nil
}

func firstWords(s string) string { return s[:min(len(s), 60)] }

// close drops the schema.
func (b *box) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = b.exec(ctx, "DROP DATABASE "+b.schema)
	_ = b.admin.Close()
}

// The tables that take the place of outbox_event, and that it goes to meanwhile.
const (
	staged = "bench_staged"
	idle   = "bench_idle"
)

// present makes the staged events the outbox, at once.
func (b *box) present(ctx context.Context) error {
	return b.exec(ctx, "RENAME TABLE outbox_event TO "+idle+", "+staged+" TO outbox_event")
}

// withdraw makes the outbox empty again.
func (b *box) withdraw(ctx context.Context) error {
	return b.exec(ctx, "RENAME TABLE outbox_event TO "+staged+", "+idle+" TO outbox_event")
}
