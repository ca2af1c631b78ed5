// Command faultrun runs writers and relays under faults and checks what the promise
// says: that relays that are killed and stopped keep the order of every aggregate,
// that nobody is in the way of writers, and that restarts repeat nothing.
//
// The servers come from OUTBOXGEN_MYSQL_DSN and OUTBOXGEN_MARIADB_DSN; `make
// order` starts private ones. The tests of this package run the same, smaller.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

type settings struct {
	only       string
	order      orderSettings
	contention contentionSettings
	rolling    rollingSettings
}

func main() {
	childIfAsked()
	var s settings
	flag.StringVar(&s.only, "only", "order,contention,rolling", "what to run")
	flag.IntVar(&s.order.aggregates, "aggregates", 1000, "order: aggregates")
	flag.IntVar(&s.order.events, "events", 100, "order: events of each aggregate")
	flag.IntVar(&s.order.writers, "writers", 16, "order: writers")
	flag.IntVar(&s.order.relays, "relays", 4, "order: relays")
	flag.DurationVar(&s.order.lease, "lease", 2*time.Second, "order: the relays' lease")
	flag.DurationVar(&s.order.drain, "drain", 10*time.Minute, "order: how long the rest may take when all is written")
	flag.Uint64Var(&s.order.seed, "seed", uint64(time.Now().UnixNano()), "order: what the events' ids, and so their fates, are made from")
	flag.DurationVar(&s.contention.duration, "contention", time.Minute, "contention: how long")
	flag.IntVar(&s.rolling.rate, "rate", 200, "rolling: events written a second")
	flag.Parse()
	s.contention.writers, s.contention.relays = 16, 8
	s.rolling.relays, s.rolling.rounds, s.rolling.lease, s.rolling.pause = 3, 2, 30*time.Second, 3*time.Second
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var problems []error
	for _, flavor := range dbserver.Flavors() {
		dsn := os.Getenv(flavor.EnvVar())
		if dsn == "" {
			fmt.Printf("%s: left out, %s is not set\n", flavor, flavor.EnvVar())
			continue
		}
		if err := runAll(ctx, flavor, dsn, s); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", flavor, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		fmt.Fprintln(os.Stderr, "faultrun:", err)
		os.Exit(1)
	}
}

func runAll(ctx context.Context, flavor dbserver.Flavor, dsn string, s settings) error {
	var problems []error
	run := func(name string, k kind, fn func(db *outbox.DB, dsn string) (fmt.Stringer, error)) {
		if !slices.Contains(strings.Split(s.only, ","), name) {
			return
		}
		report, err := inSchema(ctx, dsn, k, fn)
		fmt.Printf("%s, %s, %s: %v\n", flavor, name, k.name, report)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s, %s: %w", name, k.name, err))
		}
	}
	fmt.Printf("%s: seed %d\n", flavor, s.order.seed)
	run("order", lanesKind, func(db *outbox.DB, dsn string) (fmt.Stringer, error) { return runOrder(ctx, db, dsn, s.order) })
	for _, k := range kinds {
		run("contention", k, func(_ *outbox.DB, dsn string) (fmt.Stringer, error) {
			return runContention(ctx, k, dsn, s.contention)
		})
		run("rolling", k, func(db *outbox.DB, dsn string) (fmt.Stringer, error) {
			return runRolling(ctx, k, db, dsn, s.rolling)
		})
	}
	return errors.Join(problems...)
}

const schema = "outboxgen_faultrun"

// inSchema runs fn on a schema of its own, with the kind's tables.
func inSchema(ctx context.Context, dsn string, k kind, fn func(db *outbox.DB, dsn string) (fmt.Stringer, error)) (fmt.Stringer, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, errors.New("the DSN is not one of go-sql-driver/mysql")
	}
	admin, err := mysqldb.OpenConfig(cfg)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + schema, "CREATE DATABASE " + schema + " CHARACTER SET utf8mb4"} {
		if _, err := admin.ExecContext(ctx, statement); err != nil {
			return nil, err
		}
	}
	defer func() { _, _ = admin.Exec("DROP DATABASE " + schema) }()
	cfg = cfg.Clone()
	cfg.DBName = schema
	db, err := mysqldb.OpenConfig(cfg)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	for _, statement := range k.schema() {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, err
		}
	}
	return fn(db, cfg.FormatDSN())
}
