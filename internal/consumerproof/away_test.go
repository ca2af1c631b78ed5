package consumerproof

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const (
	awayEvents      = 300
	awayAfter       = 100 // of them are applied when the database goes away
	awayConcurrency = 4
	awayTries       = 4 // at the least, of each subscription, before the database is back

	// stormAfter is more calls of Handle than a subscription makes while the database is
	// away: those that run, and tries further and further apart, on Kafka a row of its own for
	// each partition with a message that runs.
	stormAfter = 10 * awayConcurrency
)

// The database server is killed in the middle of consuming, with transactions open, and
// comes back: consumption pauses meanwhile, nothing is counted, and every event is applied once.
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
	gone := make(chan struct{})
	kill := sync.OnceFunc(func() { server.Kill(); close(gone) })
	all := make(map[string]*away)
	for _, name := range brokers {
		all[name] = startAway(t, name, dbtest.On(t, flavor, server.DSN("")), gone)
	}
	t.Cleanup(kill) // or else a test that fails waits for handlers
	for name, a := range all {
		await(t, name+": transactions are open", func() bool { return a.entered.Load() >= awayAfter+awayConcurrency })
	}
	kill()
	for name, a := range all {
		await(t, name+": the consumer tries again and again", func() bool {
			return a.consumer.Stats().Errors >= awayConcurrency+awayTries
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
		if n := a.stats.Delivered.Load(); n != awayEvents || a.stats.Redelivered.Load() != 0 {
			t.Errorf("%s: %d deliveries of %d messages", name, n, awayEvents)
		}
		checkOnce(t, a.db, awayEvents)
	}
}

// away is a consumer whose database goes away.
type away struct {
	db       *outbox.DB
	consumer *outbox.Consumer
	stats    outbox.SubscribeStats
	entered  atomic.Int64
	gone     <-chan struct{} // closed when the database has gone: events wait for it after the first ones
	stop     func()
}

func startAway(t *testing.T, name string, schema dbtest.Database, gone <-chan struct{}) *away {
	t.Helper()
	_, db := fill(t, schema)
	a := &away{db: db, gone: gone}
	a.consumer = orderevents.NewSalesReport(db, effect(a.apply), &outbox.ConsumerConfig{Timeout: childTime, Logger: quiet()})
	rig := newRig(t, name)
	rig.publish(t, events(t, 30, awayEvents/30))
	a.stop = run(t, rig.place, a.consumer, settings{concurrency: awayConcurrency, stats: &a.stats})
	return a
}

func (a *away) apply(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error {
	if a.entered.Add(1) > awayAfter {
		<-a.gone
	}
	return tally(ctx, tx, e)
}

// checkPaused is called while the database is away.
func (a *away) checkPaused(t *testing.T, name string) {
	t.Helper()
	s := a.consumer.Stats()
	t.Logf("%s: %d pauses, %d of %d calls failed, %d deliveries, %d given back", name, a.stats.Pauses.Load(), s.Errors, s.Attempts, a.stats.Delivered.Load(), a.stats.Failed.Load())
	if s.Applied != awayAfter {
		t.Errorf("%s: %d events were applied before the database went away, want %d", name, s.Applied, awayAfter)
	}
	if a.stats.Pauses.Load() == 0 || s.Errors > stormAfter || a.stats.Failed.Load() != 0 {
		t.Errorf("%s: %d pauses, %d calls while the database was away, %d messages given back",
			name, a.stats.Pauses.Load(), s.Errors, a.stats.Failed.Load())
	}
}
