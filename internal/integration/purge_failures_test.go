package integration

import (
	"errors"
	"testing"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/purge"
)

// fillFailures notes that each event with a dedup row of a consumer has failed there
// before, for the last time so long ago.
func fillFailures(t *testing.T, db *outbox.DB, consumer, age string) {
	t.Helper()
	mustExec(t, db, `INSERT IGNORE INTO consumer_failure (consumer_name, event_id, attempts, reason, failed_at)
		SELECT consumer_name, event_id, 2, 'no', UTC_TIMESTAMP(6) - INTERVAL `+age+` FROM consumed_event WHERE consumer_name = ?`, consumer)
}

func TestPurgeFailures(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, direct *outbox.DB) {
		fillConsumed(t, direct, 1200, kept30Days, "1 DAY")
		fillFailures(t, direct, kept30Days, "31 DAY")
		fillConsumed(t, direct, 300, kept30Days, "1 DAY")
		fillFailures(t, direct, kept30Days, "29 DAY")
		fillConsumed(t, direct, 200, kept90Days, "1 DAY")
		fillFailures(t, direct, kept90Days, "89 DAY")
		fillConsumed(t, direct, 100, "unknown", "1 DAY")
		fillFailures(t, direct, "unknown", "900 DAY")
		mustExec(t, direct, "ANALYZE TABLE consumer_failure")
		proxy := mysqlproxy.Start(t, server.Addr)
		pass := mustPurge(t, dedupPurger(t, open(t, via(t, server, proxy.Addr(), nil)), purge.Config{BatchSize: 500}))
		if want := (purge.Purged{Failed: 1200}); pass.Purged != want {
			t.Errorf("%+v", pass)
		}
		for consumer, want := range map[string]int{kept30Days: 300, kept90Days: 200, "unknown": 100} {
			if n := count(t, direct, "consumer_failure WHERE consumer_name = ?", consumer); n != want {
				t.Errorf("%s: %d are left, want %d", consumer, n, want)
			}
		}
		if p := explain(t, server, direct, sent(t, proxy, "name: SelectConsumerFailures "))[0]; p.key != "ix_consumer_failure_age" || p.sorts() {
			t.Errorf("the select goes by %+v", p)
		}
		statement := sent(t, proxy, "name: DeleteConsumerFailures ")
		if p := explain(t, server, direct, statement)[0]; !p.byKey() {
			t.Errorf("the DELETE goes by %+v", p)
		}
		// The DELETE itself looks, whatever was read before.
		fillFailures(t, direct, kept30Days, "29 DAY")
		mustExec(t, direct, statement)
		if n := count(t, direct, "consumer_failure WHERE consumer_name = ?", kept30Days); n != 1500 {
			t.Errorf("%d are left, want all 1500", n)
		}
	})
}

// While an event is parked its dedup row stays, however old: a redelivery is absorbed.
// After a redrive it goes like any other.
func TestPurgeKeepsDedupRowsOfParkedEvents(t *testing.T) {
	eachConsumer(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		consumer, e := parkOne(t, db, tally)
		applied := envelope(t)
		ends(t, consumer, applied, outbox.Applied)
		old := "UPDATE consumed_event SET consumed_at = UTC_TIMESTAMP(6) - INTERVAL 91 DAY"
		mustExec(t, db, old)
		purger := dedupPurger(t, db, purge.Config{})
		if pass := mustPurge(t, purger); pass.Consumed != 1 {
			t.Errorf("%+v", pass)
		}
		checkLeft(t, db, e, left{attempts: -1, parked: 1, outcome: int(outbox.Parked)})
		ends(t, consumer, e, outbox.Duplicate)
		if handling, err := consumer.Redrive(t.Context(), e.ID); handling != outbox.Applied || err != nil {
			t.Errorf("%v, %v", handling, err)
		}
		mustExec(t, db, old)
		if pass := mustPurge(t, purger); pass.Consumed != 1 || count(t, db, "consumed_event") != 0 {
			t.Errorf("%+v", pass)
		}
		if _, err := consumer.Redrive(t.Context(), e.ID); !errors.Is(err, outbox.ErrNotParked) {
			t.Errorf("redriven twice: %v", err)
		}
	})
}
