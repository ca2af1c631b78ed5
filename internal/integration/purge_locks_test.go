package integration

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/storesuite"
	"github.com/outboxgen/outboxgen/runtime/purge"
)

// A purge reads by the index, in its order, and deletes by primary key, however
// much there is and of whatever.
func TestPurgePlans(t *testing.T) {
	const batch = 100
	for _, size := range []struct{ old, young, waiting, failures int }{
		{batch, 0, 0, batch}, {900, 1000, 100, 20}, {500, 10_000, 10_000, 500},
	} {
		t.Run(fmt.Sprintf("%+v", size), func(t *testing.T) {
			eachPurge(t, func(t *testing.T, k purgeKind, server dbtest.Database, db *outbox.DB) {
				fillAged(t, db, size.old, "2", "8*86400000000 + n MICROSECOND", longAgo)
				fillAged(t, db, size.young, "2", "n MICROSECOND", justNow)
				fillAged(t, db, size.waiting, "0", "n MICROSECOND", notYet)
				mustExec(t, db, `INSERT INTO outbox_failure (event_id, kind, reason, failed_at)
					SELECT event_id, 'failed', 'no', UTC_TIMESTAMP(6) FROM outbox_event LIMIT ?`, size.failures)
				mustExec(t, db, `INSERT INTO outbox_relay (owner, host, pid, started_at, alive_until)
					SELECT UUID(), 'h', 1, created_at, IF(status = 2, published_at, created_at) FROM outbox_event LIMIT 90`)
				mustExec(t, db, "ANALYZE TABLE outbox_event, outbox_failure, outbox_relay")
				proxy := mysqlproxy.Start(t, server.Addr)
				purged := mustPurge(t, k.purger(t, open(t, via(t, server, proxy.Addr(), nil)), purge.Config{BatchSize: batch}))
				if purged.Events != int64(size.old) || purged.Relays == 0 {
					t.Fatalf("%+v", purged)
				}
				if p := explain(t, server, db, sent(t, proxy, "available_at >="))[0]; p.key != "ix_outbox_event_claim" ||
					p.typ != "range" || strings.Contains(p.extra, "filesort") || strings.Contains(p.extra, "temporary") {
					t.Errorf("the read's plan: %+v", p)
				}
				for _, text := range []string{"DELETE e FROM", "DELETE r FROM"} {
					statement := sent(t, proxy, text)
					if p := explain(t, server, db, statement)[0]; p.key != "PRIMARY" || p.typ != "range" {
						t.Errorf("the plan of %.60q: %+v", statement, p)
					}
				}
			})
		})
	}
}

// A batch locks what it deletes, for a short time, and nobody waits for it: not a
// writer, not a claim, not a settlement.
func TestPurgeLocksOnlyItsBatch(t *testing.T) {
	const batch = 100
	eachPurge(t, func(t *testing.T, k purgeKind, server dbtest.Database, db *outbox.DB) {
		fillAged(t, db, 1000, "2", "8*86400000000 + n MICROSECOND", longAgo)
		fillAged(t, db, 100, "0", "8*86400000000 + n MICROSECOND", notYet)
		hold := mysqlproxy.Start(t, server.Addr)
		held := hold.At(mysqlproxy.HoldRequest, mysqlproxy.Is("COMMIT"))
		if _, err := k.purger(t, open(t, via(t, server, hold.Addr(), nil)), purge.Config{BatchSize: batch}).Purge(t.Context()); err == nil {
			t.Fatal("the commit was not held")
		}
		<-held.Hit
		if n := recordLocks(t, server, db); n > 2*batch || n == 0 {
			t.Errorf("the purge holds %d record locks, want at most %d", n, 2*batch)
		}
		impatient := open(t, via(t, server, "", func(c *mysql.Config) {
			c.Params = map[string]string{"innodb_lock_wait_timeout": "1"}
		}))
		for i := range 50 {
			if _, err := outbox.InTx(t.Context(), impatient, func(tx *outbox.Tx) error {
				return k.write(t.Context(), tx, outbox.NewEventID(), int64(i), 1)
			}); err != nil {
				t.Fatalf("a writer waited for the purge: %v", err)
			}
		}
		store, owner := k.newStore(impatient), storesuite.NewOwner()
		for marked := 0; marked < 150; {
			b, err := store.Claim(t.Context(), outbox.ClaimRequest{Owner: owner, Limit: batch, Lease: time.Minute})
			if err != nil {
				t.Fatalf("a claim waited for the purge: %v", err)
			}
			settled, err := store.Settle(t.Context(), b, published(b))
			if err != nil {
				t.Fatalf("a mark waited for the purge: %v", err)
			}
			if marked += settled.Published; len(b.Events) == 0 {
				t.Fatalf("%d events were claimed", marked)
			}
		}
	})
}

func published(b *outbox.Batch) []outbox.EventOutcome {
	outcomes := make([]outbox.EventOutcome, len(b.Events))
	for i, e := range b.Events {
		outcomes[i] = outbox.EventOutcome{Key: e.Key, Kind: outbox.OutcomePublished}
	}
	return outcomes
}

// Writers, four relays, and a purger that deletes what they publish right behind
// them: no deadlock and no lock wait reaches anybody, and nothing else is deleted.
func TestPurgeBesideWritersAndRelays(t *testing.T) {
	eachPurge(t, func(t *testing.T, k purgeKind, server dbtest.Database, db *outbox.DB) {
		const events, writers, relays = 2000, 4, 4
		fillAged(t, db, 500, "3", "8 DAY", notYet)
		impatient := func() *outbox.DB {
			return open(t, via(t, server, "", func(c *mysql.Config) {
				c.Params = map[string]string{"innodb_lock_wait_timeout": "1"}
			}))
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var relaying, writing sync.WaitGroup
		for range relays {
			relay, err := outbox.NewRelay(k.newStore(impatient()), publisherFunc(func(m []outbox.Envelope) []error {
				return make([]error, len(m))
			}), &outbox.RelayConfig{
				BatchSize: 50, PollInterval: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
				Observer: &outbox.Observer{StoreFailed: func(f outbox.StoreFailed) { t.Errorf("%s: %v", f.Call, f.Error) }},
			})
			if err != nil {
				t.Fatal(err)
			}
			relaying.Go(func() { _ = relay.Run(ctx) })
		}
		// To the purger it is more than a week later: whatever is published is old.
		p := k.purger(t, later(t, server, 8*24*time.Hour), purge.Config{
			BatchSize: 100, Interval: 10 * time.Millisecond,
			Observer: func(_ purge.Pass, err error) {
				if err != nil {
					t.Errorf("purge: %v", err)
				}
			},
		})
		stop := startPurge(t, p)
		for w := range writers {
			db := impatient()
			writing.Go(func() {
				for i := range events / writers {
					if _, err := outbox.InTx(ctx, db, func(tx *outbox.Tx) error {
						return k.write(ctx, tx, outbox.NewEventID(), int64(w*events+i/10), int64(i%10))
					}); err != nil {
						t.Errorf("write: %v", err)
					}
				}
			})
		}
		writing.Wait()
		for deadline := time.Now().Add(2 * time.Minute); count(t, db, "outbox_event WHERE status = 0") > 0; {
			if time.Sleep(10 * time.Millisecond); time.Now().After(deadline) { // what is waited for is a row
				t.Fatal("the relays did not finish")
			}
		}
		beside := p.Stats().Events
		cancel()
		relaying.Wait()
		stop()
		mustPurge(t, p) // what was published behind the cursor: it was old at once
		if s := p.Stats(); beside < events/10 || s.Events != events || s.Deferred > 0 {
			t.Errorf("%d were deleted beside the relays; %+v", beside, s)
		}
		if n := count(t, db, "outbox_event"); n != 500 {
			t.Errorf("%d events are left, want the 500 dead ones", n)
		}
	})
}
