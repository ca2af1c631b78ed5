// Command brokerfaults breaks brokers while relays publish to them, and checks what the
// promise says: what the outbox calls published the broker has, nothing is stuck when
// the fault is over, no outage counts as an event's failure, and no more comes twice than
// was unknown.
//
// The databases come from OUTBOXGEN_MYSQL_DSN and OUTBOXGEN_MARIADB_DSN; where both are
// there the runs take turns. `make broker-faults` starts private ones. The brokers are
// private, too, a new one for each run. The tests of this package run the same, smaller.
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

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// brokerNames are what newBroker knows. kfake stands in for kafka where that can't be had.
var brokerNames = []string{"nats", "rabbitmq", "kafka", "kfake"}

func newBroker(name string) (broker, error) {
	switch name {
	case "nats":
		return &natsBroker{}, nil
	case "rabbitmq":
		return &rabbitBroker{}, nil
	case "kafka":
		return &kafkaBroker{}, nil
	case "kfake":
		return &kfakeBroker{}, nil
	default:
		return nil, fmt.Errorf("no such broker as %q: want one of %s", name, strings.Join(brokerNames, ", "))
	}
}

func main() {
	childIfAsked()
	var s settings
	brokers := flag.String("broker", "nats,rabbitmq,kafka", "which brokers, of "+strings.Join(brokerNames, ", "))
	only := flag.String("fault", "", "which faults, separated by commas; none for all of the broker's")
	flag.IntVar(&s.events, "events", 20_000, fmt.Sprintf("events of each run, at least %d", leastEvents))
	flag.DurationVar(&s.lease, "lease", 10*time.Second, "the relays' lease; publishers wait half of it for a confirm")
	flag.DurationVar(&s.drain, "drain", 3*time.Minute, "how long the rest may take when the fault is over")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := runAll(ctx, strings.Split(*brokers, ","), *only, s); err != nil {
		fmt.Fprintln(os.Stderr, "brokerfaults:", err)
		os.Exit(1)
	}
}

// leastEvents are so many that there is a middle.
const leastEvents = 200

func progress(line string) { fmt.Fprintln(os.Stderr, line) }

func runAll(ctx context.Context, brokers []string, only string, s settings) error {
	if s.events < leastEvents {
		return fmt.Errorf("-events is %d, at least %d", s.events, leastEvents)
	}
	var flavors []dbserver.Flavor
	for _, f := range dbserver.Flavors() {
		if os.Getenv(f.EnvVar()) != "" {
			flavors = append(flavors, f)
		}
	}
	if len(flavors) == 0 {
		return errors.New("no database: make broker-faults starts one")
	}
	var problems []error
	n := 0
	for _, name := range brokers {
		b, err := newBroker(name)
		if err != nil {
			return err
		}
		for _, sc := range b.scenarios() {
			if only != "" && !slices.Contains(strings.Split(only, ","), sc.name) {
				continue
			}
			flavor := flavors[n%len(flavors)]
			n++
			what := fmt.Sprintf("%s, %s, %s", name, sc.name, flavor)
			report, err := runInSchema(ctx, os.Getenv(flavor.EnvVar()), name, sc.name, s)
			if report != nil {
				fmt.Printf("%s: %v\n", what, report)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", what, err)
				fmt.Fprintln(os.Stderr, err)
				problems = append(problems, err)
			}
		}
	}
	if n == 0 {
		return fmt.Errorf("no such fault as %q", only)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%d of %d runs failed", len(problems), n)
	}
	return nil
}

// runOn runs one scenario on a broker of its own. The database has the outbox's tables.
func runOn(ctx context.Context, db *outbox.DB, brokerName, scenarioName string, s settings) (*report, error) {
	b, err := newBroker(brokerName)
	if err != nil {
		return nil, err
	}
	all := b.scenarios()
	i := slices.IndexFunc(all, func(sc scenario) bool { return sc.name == scenarioName })
	if i < 0 {
		return nil, fmt.Errorf("%s has no fault %q", brokerName, scenarioName)
	}
	defer b.close()
	if err := b.start(ctx); err != nil {
		return nil, err
	}
	return runScenario(ctx, db, b, all[i], s)
}

func runInSchema(ctx context.Context, dsn, brokerName, scenarioName string, s settings) (*report, error) {
	db, drop, err := freshSchema(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer drop()
	return runOn(ctx, db, brokerName, scenarioName, s)
}

const schema = "outboxgen_brokerfaults"

// freshSchema makes a schema with the outbox's tables.
func freshSchema(ctx context.Context, dsn string) (db *outbox.DB, drop func(), err error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, nil, errors.New("the DSN is not one of go-sql-driver/mysql")
	}
	admin, err := mysqldb.OpenConfig(cfg)
	if err != nil {
		return nil, nil, err
	}
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + schema, "CREATE DATABASE " + schema + " CHARACTER SET utf8mb4"} {
		if _, err := admin.ExecContext(ctx, statement); err != nil {
			admin.Close()
			return nil, nil, err
		}
	}
	cfg = cfg.Clone()
	cfg.DBName = schema
	if db, err = mysqldb.OpenConfig(cfg); err != nil {
		admin.Close()
		return nil, nil, err
	}
	drop = func() {
		db.Close()
		_, _ = admin.Exec("DROP DATABASE " + schema)
		admin.Close()
	}
	for _, statement := range orderevents.Schema() {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			drop()
			return nil, nil, err
		}
	}
	return db, drop, nil
}
