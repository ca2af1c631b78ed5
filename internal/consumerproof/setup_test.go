// Package consumerproof proves the consuming side over real brokers and both
// databases: that acknowledgements follow commits on the wire, and that a consumer's
// death, a bad event and a lost database have the effects that docs/guarantees.md
// promises. It has tests only.
package consumerproof

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// full is what `make consumerproof` sets: the tests at their full size, each on both
// databases.
var full = os.Getenv("OUTBOXGEN_CONSUMERPROOF") == "full"

// atATime is how many subtests run in parallel: they wait most of the time.
const atATime = 6

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		if err := runChild(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(atATime)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	code := m.Run()
	stopRabbit()
	os.Exit(code)
}

// eachBroker runs fn for each broker.
func eachBroker(t *testing.T, fn func(t *testing.T, name string)) {
	t.Helper()
	for _, name := range brokers {
		t.Run(name, func(t *testing.T) { fn(t, name) })
	}
}

// eachFlavor runs fn for both databases, or unless full for one of them, that of turn.
func eachFlavor(t *testing.T, turn int, fn func(t *testing.T, f dbserver.Flavor)) {
	t.Helper()
	all := dbserver.Flavors()
	if !full {
		all = all[turn%len(all):][:1]
	}
	for _, f := range all {
		t.Run(string(f), func(t *testing.T) { fn(t, f) })
	}
}

// fresh makes a schema with the consumers' tables.
func fresh(t *testing.T, f dbserver.Flavor) (dbtest.Database, *outbox.DB) {
	t.Helper()
	return fill(t, dbtest.New(t, f))
}

// fill makes the consumers' tables, and one for effects that lets repeats in, so that they
// would show.
func fill(t *testing.T, schema dbtest.Database) (dbtest.Database, *outbox.DB) {
	t.Helper()
	schema.Exec(t, orderevents.Schema()...)
	schema.Exec(t, "CREATE TABLE tally (id BIGINT AUTO_INCREMENT PRIMARY KEY, event_id CHAR(36) NOT NULL)")
	return schema, open(t, schema.DSN)
}

func open(t *testing.T, dsn string) *outbox.DB {
	t.Helper()
	db, err := mysqldb.Open(dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func count(t *testing.T, db *outbox.DB, rows string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+rows).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// checkOnce wants a dedup row and one effect of each event, no attempt counted and nothing
// parked.
func checkOnce(t *testing.T, db *outbox.DB, events int) {
	t.Helper()
	const distinct = "(SELECT DISTINCT c.event_id FROM consumed_event c JOIN tally e ON e.event_id = c.event_id WHERE c.outcome = 1) d"
	for rows, want := range map[string]int{"consumed_event": events, "tally": events, distinct: events, "consumer_failure": 0, "parked_event": 0} {
		if n := count(t, db, rows); n != want {
			t.Errorf("%d rows of %s, want %d", n, rows, want)
		}
	}
}

// await polls what no signal tells.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within two minutes", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// effect is a consumer sales-report whose effect is a function.
type effect func(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error

func (f effect) HandleOrderAccepted(ctx context.Context, tx *outbox.Tx, m outbox.Message[orderevents.OrderAccepted]) error {
	return f(ctx, tx, m.Envelope)
}

func tally(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO tally (event_id) VALUES (?)", e.ID.String())
	return err
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// events makes n events each of so many aggregates, in turns.
func events(t *testing.T, aggregates, n int) []outbox.Envelope {
	t.Helper()
	data, err := json.Marshal(orderevents.OrderAccepted{
		OrderID: 1, OrderVersion: 1, TenantID: 1,
		Total: orderevents.Money{Amount: decimal.RequireFromString("10.00"), Currency: orderevents.CurrencyEUR},
	})
	if err != nil {
		t.Fatal(err)
	}
	all := make([]outbox.Envelope, 0, aggregates*n)
	for version := range n {
		for a := range aggregates {
			all = append(all, outbox.Envelope{
				ID: outbox.NewEventID(), Source: orderevents.Service, Type: orderevents.EventTypeOrderAccepted,
				AggregateType: "order", AggregateID: strconv.Itoa(a), AggregateVersion: int64(version + 1), SchemaVersion: 2,
				Time: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC), Data: data,
			})
		}
	}
	return all
}

// run subscribes in the background until stop is called, or the test ends.
func run(t *testing.T, p place, h outbox.Handler, s settings) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.subscribe(ctx, h, s) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("the subscription: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the subscription didn't end with its context")
		}
	}
	t.Cleanup(stop)
	return stop
}
