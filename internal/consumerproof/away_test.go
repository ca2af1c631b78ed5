package consumerproof

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const (
	awayEvents      = 300
	cutAfter        = 100 // calls of the handler the connections are cut
	awayAfter       = 200 // calls of the handler the server is killed
	awayConcurrency = 4
	awayTries       = 4 // at the least, of each subscription, before the server is back

	// storm is more calls of Handle than fail until the server is back: those that run, and
	// tries further and further apart, on Kafka a row of its own for each partition.
	storm = 15 * awayConcurrency
)

// Twice the database goes away in the middle of consuming, with transactions open: first the
// connections are cut, which leaves a server that could count attempts, then the server is
// killed and comes back. Consumption pauses meanwhile, nothing is counted, and every event is
// applied once.
func TestDatabaseAway(t *testing.T) {
	for _, flavor := range dbserver.Flavors() {
		t.Run(string(flavor), func(t *testing.T) {
			t.Parallel()
			databaseAway(t, flavor)
		})
	}
}

func databaseAway(t *testing.T, flavor dbserver.Flavor) {
	server, err := dbserver.Start(t.Context(), flavor, dbserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	cut, gone := newSignal(), newSignal()
	all := make(map[string]*away)
	for _, name := range brokers {
		all[name] = startAway(t, name, dbtest.On(t, flavor, server.DSN("")), cut, gone)
	}
	t.Cleanup(func() { cut.give(); gone.give() }) // or else a test that fails waits for handlers
	awaitCalls(t, all, cutAfter+awayConcurrency)
	for _, a := range all {
		a.cut(t)
	}
	cut.give()
	awaitCalls(t, all, awayAfter+awayConcurrency)
	server.Kill()
	gone.give()
	for name, a := range all {
		await(t, name+": the consumer tries again and again", func() bool {
			return a.consumer.Stats().Errors >= 2*awayConcurrency+awayTries
		})
	}
	for name, a := range all {
		a.checkPaused(t, name)
	}
	if err := server.Restart(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	for name, a := range all {
		await(t, name+": every event is applied", func() bool { return a.stats.Handled.Load() >= awayEvents })
		a.stop()
		t.Logf("%s: %d deliveries, %d pauses; %+v", name, a.stats.Delivered.Load(), a.stats.Pauses.Load(), a.consumer.Stats())
		if n := a.consumer.Stats().Errors; n >= storm {
			t.Errorf("%s: %d calls failed, less than %d were to try", name, n, storm)
		}
		if n := a.stats.Delivered.Load(); n != awayEvents || a.stats.Redelivered.Load() != 0 {
			t.Errorf("%s: %d deliveries of %d messages", name, n, awayEvents)
		}
		checkOnce(t, a.db, awayEvents)
	}
}

// signal is given once.
type signal struct {
	given <-chan struct{}
	give  func()
}

func newSignal() signal {
	c := make(chan struct{})
	return signal{given: c, give: sync.OnceFunc(func() { close(c) })}
}

// away is a consumer whose database goes away. Its handler waits for that with transactions
// open.
type away struct {
	schema    dbtest.Database
	db        *outbox.DB
	consumer  *outbox.Consumer
	stats     outbox.SubscribeStats
	calls     atomic.Int64 // of the handler
	wasCut    signal
	wasKilled signal
	stop      func()
}

func startAway(t *testing.T, name string, schema dbtest.Database, wasCut, wasKilled signal) *away {
	t.Helper()
	_, db := fill(t, schema)
	a := &away{schema: schema, db: db, wasCut: wasCut, wasKilled: wasKilled}
	a.consumer = orderevents.NewSalesReport(db, effect(a.apply), &upcasts.Upcaster{}, &outbox.ConsumerConfig{Timeout: childTime, Logger: quiet()})
	rig := newRig(t, name)
	rig.publish(t, events(t, 30, awayEvents/30))
	a.stop = run(t, rig.place, a.consumer, settings{concurrency: awayConcurrency, stats: &a.stats})
	return a
}

func (a *away) apply(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error {
	switch n := a.calls.Add(1); {
	case n > awayAfter:
		<-a.wasKilled.given
	case n > cutAfter:
		<-a.wasCut.given
	}
	return tally(ctx, tx, e)
}

func awaitCalls(t *testing.T, all map[string]*away, calls int64) {
	t.Helper()
	for name, a := range all {
		await(t, name+": transactions are open", func() bool { return a.calls.Load() >= calls })
	}
}

// cut ends the connections of the consumer's pool at the server.
func (a *away) cut(t *testing.T) {
	t.Helper()
	admin := a.schema.Open(t)
	rows, err := admin.QueryContext(t.Context(), "SELECT id FROM information_schema.processlist WHERE db = ? AND id <> CONNECTION_ID()", a.schema.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		a.schema.Exec(t, fmt.Sprintf("KILL %d", id))
	}
	if err := rows.Err(); err != nil || n < awayConcurrency {
		t.Fatalf("%d connections were cut: %v", n, err)
	}
}

// checkPaused is called while the database is away.
func (a *away) checkPaused(t *testing.T, name string) {
	t.Helper()
	s := a.consumer.Stats()
	t.Logf("%s: %d pauses, %d of %d calls failed, %d deliveries, %d given back", name, a.stats.Pauses.Load(), s.Errors, s.Attempts, a.stats.Delivered.Load(), a.stats.Failed.Load())
	if want := int64(awayAfter - awayConcurrency); s.Applied != want {
		t.Errorf("%s: %d events were applied before the server was killed, want %d", name, s.Applied, want)
	}
	if a.stats.Pauses.Load() < 2 || a.stats.Failed.Load() != 0 {
		t.Errorf("%s: %d pauses, %d messages given back", name, a.stats.Pauses.Load(), a.stats.Failed.Load())
	}
}
