package integration

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"time"

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

// later opens a pool to whose connections it is so much later than to others.
func later(t *testing.T, server dbtest.Database, d time.Duration) *outbox.DB {
	t.Helper()
	now := strconv.FormatInt(time.Now().Add(d).Unix(), 10)
	return open(t, via(t, server, "", func(c *mysql.Config) { c.Params = map[string]string{"timestamp": now} }))
}

// A purger that died is replaced when its hold ends, by the database's clock.
func TestPurgeHolderIsReplaced(t *testing.T) {
	eachPurge(t, func(t *testing.T, k purgeKind, server dbtest.Database, db *outbox.DB) {
		// What a killed process leaves.
		mustExec(t, db, `INSERT INTO outbox_task (task, holder, holder_until)
			VALUES ('purge-events', 'dead', UTC_TIMESTAMP(6) + INTERVAL 1500000 MICROSECOND)`)
		if pass := mustPurge(t, k.purger(t, db, purge.Config{})); pass.Elected {
			t.Fatal("two purgers are elected")
		}
		passes := make(chan purge.Pass, 1)
		stop := startPurge(t, k.purger(t, db, purge.Config{Interval: 10 * time.Millisecond, Observer: func(p purge.Pass, _ error) {
			select {
			case passes <- p:
			default:
			}
		}}))
		defer stop()
		var over bool
		if pass := <-passes; !pass.Elected {
			t.Errorf("%+v", pass)
		}
		err := db.QueryRowContext(t.Context(), `SELECT holder <> 'dead' AND holder_until > UTC_TIMESTAMP(6) FROM outbox_task`).Scan(&over)
		if err != nil || !over {
			t.Errorf("the dead purger's hold is not over (%v)", err)
		}
		if pass := mustPurge(t, k.purger(t, db, purge.Config{})); pass.Elected {
			t.Error("a second purger is elected")
		}
	})
}

// Purgers that all believe in their election do no harm: each event is deleted
// once, and none of them gets an error.
func TestPurgersAtOnce(t *testing.T) {
	eachPurge(t, func(t *testing.T, k purgeKind, server dbtest.Database, db *outbox.DB) {
		const events, purgers = 10_000, 3
		fillAged(t, db, events, "2", "9*86400000000 + n MICROSECOND", longAgo)
		passes := make(chan purge.Pass, purgers)
		for i := range purgers {
			// To each the hold of those before it is long over.
			p := k.purger(t, later(t, server, time.Duration(i)*time.Hour), purge.Config{BatchSize: 100})
			go func() {
				pass, err := p.Purge(t.Context())
				if err != nil || !pass.Elected {
					t.Errorf("%+v, %v", pass, err)
				}
				passes <- pass
			}()
			for !p.Stats().Elected && count(t, db, "outbox_event") > 0 {
				time.Sleep(time.Millisecond) // until it is at work, and the next one comes
			}
		}
		deleted := int64(0)
		for range purgers {
			deleted += (<-passes).Events
		}
		if left := count(t, db, "outbox_event"); deleted != events || left != 0 {
			t.Errorf("%d events were deleted, %d are left", deleted, left)
		}
	})
}

// What breaks in the middle is gone through: a COMMIT whose reply is lost, a
// connection.
func TestPurgeGoesOnAfterFaults(t *testing.T) {
	for _, statement := range []string{"COMMIT", "DELETE e FROM", "available_at >=", "INTO outbox_task"} {
		for name, action := range map[string]mysqlproxy.Action{"request cut": mysqlproxy.CutRequest, "reply cut": mysqlproxy.CutReply} {
			t.Run(statement+" "+name, func(t *testing.T) {
				dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
					t.Parallel()
					server.Exec(t, rows.Schema()...)
					db := open(t, server.DSN)
					fillAged(t, db, 1000, "2", "8 DAY", longAgo)
					proxy := mysqlproxy.Start(t, server.Addr)
					fault := proxy.At(action, mysqlproxy.Has(statement))
					empty := make(chan struct{}, 1)
					p, err := rows.NewPurger(open(t, via(t, server, proxy.Addr(), nil)), quiet(purge.Config{
						Interval: 20 * time.Millisecond,
						Observer: func(_ purge.Pass, err error) {
							if err == nil && count(t, db, "outbox_event") == 0 {
								select {
								case empty <- struct{}{}:
								default:
								}
							}
						},
					}))
					if err != nil {
						t.Fatal(err)
					}
					stop := startPurge(t, p)
					<-fault.Hit
					<-empty
					stop()
					if s := p.Stats(); s.Failures == 0 || count(t, db, "outbox_task") != 0 {
						t.Errorf("the fault did not happen: %+v", s)
					}
				})
			})
		}
	}
}
