package integration

import (
	"strconv"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	rows "github.com/outboxgen/outboxgen/internal/variants/rows/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/purge"
)

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
