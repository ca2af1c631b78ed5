package integration

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/purge"
)

func dedupPurger(t *testing.T, db *outbox.DB, cfg purge.Config) *purge.Purger {
	t.Helper()
	p, err := orderevents.NewDedupPurger(db, quiet(cfg))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fillConsumed adds n dedup rows of a consumer, the first of that age and each of
// the others younger by a microsecond.
func fillConsumed(t *testing.T, db *outbox.DB, n int, consumer, age string) {
	t.Helper()
	for done := 0; done < n; done += 1000 {
		mustExec(t, db, `INSERT INTO consumed_event (consumer_name, event_id, consumed_at)
			WITH RECURSIVE digits (d) AS (SELECT 0 UNION ALL SELECT d + 1 FROM digits WHERE d < 9),
			numbers (n) AS (SELECT a.d + 10*b.d + 100*c.d + ? FROM digits a, digits b, digits c)
			SELECT ?, UUID(), UTC_TIMESTAMP(6) - INTERVAL `+age+` + INTERVAL n MICROSECOND
			FROM numbers WHERE n < ? ORDER BY n`, done, consumer, n)
	}
}

const (
	kept30Days = orderevents.ConsumerNameNotificationPlanner // retain's default
	kept90Days = orderevents.ConsumerNameSalesReport
)

func TestPurgeDedup(t *testing.T) {
	each(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		fillConsumed(t, db, 300, "unknown", "900 DAY")
		fillConsumed(t, db, 700, kept90Days, "91 DAY")
		fillConsumed(t, db, 5000, kept90Days, "89 DAY")
		fillConsumed(t, db, 600, kept30Days, "31 DAY") // behind those
		fillConsumed(t, db, 400, "unknown", "31 DAY")
		fillConsumed(t, db, 20, kept30Days, "30 DAY + INTERVAL 5 MINUTE") // the horizon is near
		fillConsumed(t, db, 100, kept30Days, "1 DAY")
		pass := mustPurge(t, dedupPurger(t, db, purge.Config{}))
		if want := (purge.Purged{Consumed: 1300}); !pass.Elected || pass.Purged != want {
			t.Errorf("%+v", pass)
		}
		for consumer, want := range map[string]int{"unknown": 700, kept90Days: 5000, kept30Days: 120} {
			if n := count(t, db, "consumed_event WHERE consumer_name = ?", consumer); n != want {
				t.Errorf("%s: %d rows are left, want %d", consumer, n, want)
			}
		}
	})
}

// An event is refused for as long as its dedup row must be kept: the DELETE itself
// looks, whatever was read before.
func TestPurgeDedupDeleteLooksAgain(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		fillConsumed(t, db, 10, kept30Days, "31 DAY")
		proxy := mysqlproxy.Start(t, server.Addr)
		if pass := mustPurge(t, dedupPurger(t, open(t, via(t, server, proxy.Addr(), nil)), purge.Config{})); pass.Consumed != 10 {
			t.Fatalf("%+v", pass)
		}
		statement := sent(t, proxy, "DELETE c FROM")
		if p := explain(t, server, db, statement)[0]; p.key != "PRIMARY" || p.typ != "range" {
			t.Errorf("the plan of %.60q: %+v", statement, p)
		}
		if p := explain(t, server, db, sent(t, proxy, "id >"))[0]; p.key != "PRIMARY" || p.typ != "range" || strings.Contains(p.extra, "filesort") {
			t.Errorf("the read's plan: %+v", p)
		}
		ids := regexp.MustCompile(`IN \(([0-9,]+)\)`).FindStringSubmatch(statement)[1]
		first, _, _ := strings.Cut(ids, ",")
		for _, c := range []struct {
			consumer, age string
			want          int64
		}{
			{kept30Days, "30 DAY + INTERVAL 1 MINUTE", 0}, {"unknown", "31 DAY", 0}, {kept90Days, "31 DAY", 0}, {kept30Days, "30 DAY", 1},
		} {
			mustExec(t, db, "DELETE FROM consumed_event")
			mustExec(t, db, `INSERT INTO consumed_event (id, consumer_name, event_id, consumed_at)
				VALUES (?, ?, UUID(), UTC_TIMESTAMP(6) - INTERVAL `+c.age+`)`, first, c.consumer)
			result, err := db.ExecContext(t.Context(), statement)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := result.RowsAffected(); err != nil || n != c.want {
				t.Errorf("%d rows of %s, %s old, were deleted (%v), want %d", n, c.consumer, c.age, err, c.want)
			}
		}
	})
}

// Consumers work on beside a purge, also when an event comes again whose row is
// being deleted.
func TestPurgeDedupBesideConsumers(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		fillConsumed(t, db, 20_000, kept90Days, "91 DAY")
		var ids []string
		rows, err := db.QueryContext(t.Context(), "SELECT event_id FROM consumed_event WHERE id % 100 = 0 ORDER BY id")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		nothing := effect(func(context.Context, *outbox.Tx, string) error { return nil })
		consumer := orderevents.NewSalesReport(open(t, via(t, server, "", func(c *mysql.Config) {
			c.Params = map[string]string{"innodb_lock_wait_timeout": "1"}
		})), nothing, &upcasts.Upcaster{}, nil)
		p := dedupPurger(t, db, purge.Config{BatchSize: 100})
		var purging sync.WaitGroup
		purging.Go(func() {
			if _, err := p.Purge(t.Context()); err != nil {
				t.Error(err)
			}
		})
		for _, id := range ids {
			for _, id := range []uuid.UUID{uuid.MustParse(id), outbox.NewEventID()} {
				e := envelope(t)
				e.ID = id
				if _, err := consumer.Handle(t.Context(), e); err != nil {
					t.Errorf("a consumer met the purge: %v", err)
				}
			}
		}
		purging.Wait()
		if s := p.Stats(); s.Consumed < 20_000-int64(len(ids)) || s.Deferred > 0 {
			t.Errorf("%+v", s)
		}
		if n := count(t, db, "consumed_event WHERE consumed_at > UTC_TIMESTAMP() - INTERVAL 1 DAY"); n < len(ids) {
			t.Errorf("%d new dedup rows are left, want the %d of new events at least", n, len(ids))
		}
	})
}
