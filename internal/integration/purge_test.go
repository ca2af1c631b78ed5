package integration

import (
	"context"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	rows "github.com/outboxgen/outboxgen/internal/variants/rows/gen/orderevents"
	rowsdelete "github.com/outboxgen/outboxgen/internal/variants/rowsdelete/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/purge"
)

// purgeKind is a kind of outbox that keeps published events, for a week.
type purgeKind struct {
	kind
	newPurger func(*outbox.DB, *purge.Config) (*purge.Purger, error)
}

var purgeKinds = []purgeKind{{lanesKind, orderevents.NewPurger}, {rowsKind, rows.NewPurger}}

// eachPurge runs fn on both databases with the outbox's tables of each kind.
func eachPurge(t *testing.T, fn func(t *testing.T, k purgeKind, server dbtest.Database, db *outbox.DB)) {
	t.Helper()
	for _, flavor := range dbserver.Flavors() {
		for _, k := range purgeKinds {
			t.Run(flavor.String()+"/"+k.name, func(t *testing.T) {
				t.Parallel()
				server := dbtest.New(t, flavor)
				server.Exec(t, k.schema()...)
				fn(t, k, server, open(t, server.DSN))
			})
		}
	}
}

func quiet(cfg purge.Config) *purge.Config {
	cfg.Logger = slog.New(slog.DiscardHandler)
	return &cfg
}

// purger returns the purger of a kind on db.
func (k purgeKind) purger(t *testing.T, db *outbox.DB, cfg purge.Config) *purge.Purger {
	t.Helper()
	p, err := k.newPurger(db, quiet(cfg))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustPurge(t *testing.T, p *purge.Purger) purge.Pass {
	t.Helper()
	pass, err := p.Purge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pass
}

// startPurge runs a purger until stop.
func startPurge(t *testing.T, p *purge.Purger) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// fillAged adds n events with one status: due, and published if they are, such
// times ago. The times are SQL expressions, in which n counts the events.
func fillAged(t *testing.T, db *outbox.DB, n int, status, due, published string) {
	t.Helper()
	for done := 0; done < n; done += 1000 {
		mustExec(t, db, `INSERT INTO outbox_event
			(event_id, aggregate_type, aggregate_id, event_type, event_version, schema_version, payload, headers,
			created_at, available_at, status, published_at)
			WITH RECURSIVE digits (d) AS (SELECT 0 UNION ALL SELECT d + 1 FROM digits WHERE d < 9),
			numbers (n) AS (SELECT a.d + 10*b.d + 100*c.d + ? FROM digits a, digits b, digits c)
			SELECT UUID(), 'order', n, 'order.accepted', 1, 1, '{"a":1}', '{}', UTC_TIMESTAMP(6),
			UTC_TIMESTAMP(6) - INTERVAL `+due+`, `+status+`, `+published+`
			FROM numbers WHERE n < ?`, done, n)
	}
}

const (
	longAgo = "UTC_TIMESTAMP(6) - INTERVAL 8 DAY"
	justNow = "UTC_TIMESTAMP(6)"
	notYet  = "'1970-01-01 00:00:00'"
)

func TestPurgeEvents(t *testing.T) {
	eachPurge(t, func(t *testing.T, k purgeKind, _ dbtest.Database, db *outbox.DB) {
		fillAged(t, db, 1200, "2", "8*86400000000 + n MICROSECOND", longAgo)
		fillAged(t, db, 70, "2", "8 DAY", justNow)
		fillAged(t, db, 80, "0", "8 DAY", notYet)
		fillAged(t, db, 90, "3", "8 DAY", notYet)
		fillAged(t, db, 60, "3", "8 DAY", longAgo) // no such rows are, and they wouldn't be purged either
		mustExec(t, db, `INSERT INTO outbox_failure (event_id, kind, reason, failed_at)
			SELECT event_id, 'failed', 'no', UTC_TIMESTAMP(6) FROM outbox_event`)
		mustExec(t, db, `INSERT INTO outbox_relay (owner, host, pid, started_at, alive_until) VALUES
			('live', 'h', 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 MINUTE),
			('young', 'h', 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL 6 DAY),
			('old', 'h', 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL 8 DAY)`)

		pass := mustPurge(t, k.purger(t, db, purge.Config{BatchSize: 500}))
		if want := (purge.Purged{Events: 1200, Relays: 1}); !pass.Elected || pass.Purged != want {
			t.Errorf("%+v", pass)
		}
		for what, want := range map[string]int{
			"outbox_event WHERE status = 2": 70, "outbox_event WHERE status = 0": 80, "outbox_event WHERE status = 3": 150,
			"outbox_failure": 300, "outbox_relay": 2, "outbox_relay WHERE owner = 'old'": 0, "outbox_task": 0,
		} {
			if n := count(t, db, what); n != want {
				t.Errorf("%s: %d rows, want %d", what, n, want)
			}
		}
	})
}

// Whatever was read before, the DELETE itself looks at what it deletes.
func TestPurgeDeleteLooksAgain(t *testing.T) {
	eachPurge(t, func(t *testing.T, k purgeKind, server dbtest.Database, db *outbox.DB) {
		fillAged(t, db, 5, "2", "8 DAY", longAgo)
		proxy := mysqlproxy.Start(t, server.Addr)
		if pass := mustPurge(t, k.purger(t, open(t, via(t, server, proxy.Addr(), nil)), purge.Config{})); pass.Events != 5 {
			t.Fatalf("%+v", pass)
		}
		statement := sent(t, proxy, "DELETE e FROM")
		id := regexp.MustCompile(`IN \('([^']+)'`).FindStringSubmatch(statement)[1]
		for _, c := range []struct {
			status, published string
			want              int64
		}{
			{"0", longAgo, 0}, {"3", longAgo, 0}, {"2", "UTC_TIMESTAMP(6) - INTERVAL 7 DAY + INTERVAL 1 MINUTE", 0}, {"2", longAgo, 1},
		} {
			mustExec(t, db, "DELETE FROM outbox_event")
			fillAged(t, db, 1, c.status, "8 DAY", c.published)
			mustExec(t, db, "UPDATE outbox_event SET event_id = ?", id)
			result, err := db.ExecContext(t.Context(), statement)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := result.RowsAffected(); err != nil || n != c.want {
				t.Errorf("%d rows with status %s, published at %s, were deleted (%v), want %d", n, c.status, c.published, err, c.want)
			}
		}
	})
}

// So do those of a relay's row, and of a task that another purger has taken.
func TestPurgeSmallDeletesLookAgain(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		insertRelay := `INSERT INTO outbox_relay (owner, host, pid, started_at, alive_until) VALUES ('a', 'h', 1, UTC_TIMESTAMP(6), `
		mustExec(t, db, insertRelay+longAgo+")")
		proxy := mysqlproxy.Start(t, server.Addr)
		mustPurge(t, purgeKinds[0].purger(t, open(t, via(t, server, proxy.Addr(), nil)), purge.Config{}))
		mustExec(t, db, insertRelay+justNow+")")
		mustExec(t, db, "INSERT INTO outbox_task (task, holder, holder_until) VALUES ('purge-events', 'another', UTC_TIMESTAMP(6))")
		mustExec(t, db, sent(t, proxy, "DELETE r FROM"))
		mustExec(t, db, sent(t, proxy, "DELETE FROM outbox_task"))
		if count(t, db, "outbox_relay") != 1 || count(t, db, "outbox_task") != 1 {
			t.Error("the row of a live relay, or another purger's task, was deleted")
		}
	})
}

// The account of a purger needs no more than this.
func TestPurgeGrants(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		user := server.Name + "_p"
		user = user[len(user)-20:]
		if _, err := db.ExecContext(t.Context(), "CREATE USER "+user+"@'%' IDENTIFIED BY 'secret'"); err != nil {
			t.Skipf("the server's account may create none: %v", err) // not so where the tests start the server
		}
		t.Cleanup(func() { server.Exec(t, "DROP USER "+user+"@'%'") })
		for _, grant := range []string{
			"SELECT, DELETE ON outbox_event", "DELETE ON outbox_failure", "SELECT (event_id) ON outbox_failure",
			"SELECT, DELETE ON outbox_relay", "SELECT, DELETE ON consumed_event", "SELECT, DELETE ON consumer_failure", "SELECT, INSERT, UPDATE, DELETE ON outbox_task",
		} {
			server.Exec(t, "GRANT "+strings.Replace(grant, " ON ", " ON "+server.Name+".", 1)+" TO "+user+"@'%'")
		}
		fillAged(t, db, 100, "2", "8 DAY", longAgo)
		fillConsumed(t, db, 100, kept30Days, "31 DAY")
		fillFailures(t, db, kept30Days, "31 DAY")
		limited := open(t, via(t, server, "", func(c *mysql.Config) { c.User, c.Passwd = user, "secret" }))
		for _, p := range []*purge.Purger{purgeKinds[0].purger(t, limited, purge.Config{}), dedupPurger(t, limited, purge.Config{})} {
			if pass := mustPurge(t, p); pass.Events+pass.Consumed != 100 {
				t.Errorf("%+v", pass)
			}
		}
		if n := count(t, db, "consumer_failure"); n != 0 {
			t.Errorf("%d failures are left", n)
		}
		if err := limited.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM outbox_lane").Scan(new(int)); err == nil {
			t.Error("the account may more than it was granted")
		}
	})
}

// Where events are deleted when they are published, only the relays' rows are purged.
func TestPurgeOfDeletingOutbox(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		t.Parallel()
		server.Exec(t, rowsdelete.Schema()...)
		db := open(t, server.DSN)
		fillAged(t, db, 10, "3", "8 DAY", notYet)
		mustExec(t, db, `INSERT INTO outbox_relay (owner, host, pid, started_at, alive_until) VALUES
			('old', 'h', 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL 8 DAY)`)
		p, err := rowsdelete.NewPurger(db, quiet(purge.Config{}))
		if err != nil {
			t.Fatal(err)
		}
		if pass := mustPurge(t, p); pass.Purged != (purge.Purged{Relays: 1}) || count(t, db, "outbox_event") != 10 {
			t.Errorf("%+v", pass)
		}
	})
}

// Events that were published late lie in front of those that are old, and may be
// due at one moment.
func TestPurgeBehindYoungEvents(t *testing.T) {
	for name, due := range map[string]string{"in order": "9*86400000000 - n MICROSECOND", "at one moment": "9 DAY"} {
		t.Run(name, func(t *testing.T) {
			eachPurge(t, func(t *testing.T, k purgeKind, _ dbtest.Database, db *outbox.DB) {
				fillAged(t, db, 2000, "2", due, justNow)
				fillAged(t, db, 1000, "2", "8 DAY", longAgo)
				pass := mustPurge(t, k.purger(t, db, purge.Config{BatchSize: 100}))
				if pass.Events != 1000 || count(t, db, "outbox_event") != 2000 {
					t.Errorf("%+v", pass)
				}
			})
		})
	}
}
