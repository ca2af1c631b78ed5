package integration

import (
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
)

// Wherever reconcile --republish dies, a second run makes anew what is missing still, and
// nothing twice.
func TestRepublishKilled(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		t.Parallel()
		const rows, missing = 60, 8
		fillOrders(t, server, filled{begin: time.Now().Add(-2 * time.Hour), step: time.Second, rows: rows})
		db := open(t, server.DSN)
		for name, match := range map[string]func(string) bool{
			"the lock": mysqlproxy.Has("LOCK IN SHARE MODE"), "the statement of source.rebuild": mysqlproxy.Has("JSON_OBJECT"), "the event": mysqlproxy.Has("INSERT INTO outbox_event"),
			"the dedup row": mysqlproxy.Has("INSERT INTO consumed_event"), "the parked event": mysqlproxy.Has("INSERT INTO parked_event"),
			"the redrive": mysqlproxy.Has("INSERT INTO consumer_redrive"), "the audit": mysqlproxy.Has("INSERT INTO outbox_audit"), "COMMIT": mysqlproxy.Is("COMMIT"),
		} {
			for _, action := range []mysqlproxy.Action{mysqlproxy.CutRequest, mysqlproxy.CutReply} {
				mustExec(t, db, "DELETE FROM outbox_event ORDER BY event_id LIMIT 4")
				mustExec(t, db, "DELETE FROM consumed_event WHERE consumer_name = 'sales-report' ORDER BY event_id DESC LIMIT 4")
				for _, table := range []string{"parked_event", "consumer_redrive", "outbox_audit"} {
					mustExec(t, db, "DELETE FROM "+table)
				}
				proxy := mysqlproxy.Start(t, server.Addr)
				fault := proxy.Arm(mysqlproxy.Rule{Action: action, Match: match, Nth: 2, Sever: true})
				killed := via(t, server, proxy.Addr(), func(c *mysql.Config) { c.InterpolateParams = true })
				if _, stderr, code := runReconcile(t, killed, "--republish", "--yes"); code != 2 {
					t.Errorf("%s: ended with %d\n%s", name, code, stderr)
				}
				select {
				case <-fault.Hit:
				default:
					t.Fatalf("%s: was not reached", name)
				}
				_, stderr, code := runReconcile(t, server.DSN, "--republish", "--yes")
				if code != 1 {
					t.Errorf("%s, again: %d\n%s", name, code, stderr)
				}
				for what, n := range map[string]int{
					"outbox_event":                                                  rows,
					"outbox_event WHERE status = 0":                                 missing / 2,
					"parked_event":                                                  missing / 2,
					"consumer_redrive":                                              missing / 2,
					"consumed_event WHERE outcome = 4":                              missing / 2,
					"outbox_audit WHERE operation = 'republish.event'":              missing / 2,
					"outbox_audit WHERE operation = 'republish.delivery'":           missing / 2,
					"(SELECT DISTINCT event_id, consumer_name FROM outbox_audit) a": missing,
				} {
					if got := count(t, db, what); got != n {
						t.Errorf("%s: %d rows of %s, want %d", name, got, what, n)
					}
				}
				mustExec(t, db, "UPDATE outbox_event SET status = 2, published_at = created_at WHERE status = 0")
				mustExec(t, db, "UPDATE consumed_event SET outcome = 1")
			}
		}
	})
}
