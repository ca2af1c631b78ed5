package integration

import (
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/storesuite"
)

// fill adds published and waiting events, by the server itself.
func fill(t *testing.T, db *outbox.DB, published, waiting int) {
	t.Helper()
	for n := 0; n < published+waiting; n += 10000 {
		size := min(10000, published+waiting-n)
		status := fmt.Sprintf("IF(n + %d < %d, 2, 0)", n, published)
		mustExec(t, db, `INSERT INTO outbox_event
			(event_id, aggregate_type, aggregate_id, event_type, event_version, schema_version, payload, headers, created_at, available_at, status)
			WITH RECURSIVE digits (d) AS (SELECT 0 UNION ALL SELECT d + 1 FROM digits WHERE d < 9),
			numbers (n) AS (SELECT a.d + 10*b.d + 100*c.d + 1000*e.d FROM digits a, digits b, digits c, digits e)
			SELECT UUID(), 'order', n, 'order.accepted', 1, 1, '{"a":1}', '{}', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL n MICROSECOND, `+status+`
			FROM numbers WHERE n < ?`, size)
	}
	mustExec(t, db, "ANALYZE TABLE outbox_event")
}

// plan is the first row of an EXPLAIN.
type plan struct{ key, typ, extra string }

func explain(t *testing.T, server dbtest.Database, db *outbox.DB, statement string) plan {
	t.Helper()
	explain := "EXPLAIN "
	if server.Flavor == dbserver.MySQL { // its default is a tree
		explain = "EXPLAIN FORMAT=TRADITIONAL "
	}
	rows, err := db.QueryContext(t.Context(), explain+statement)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	values := make([]sql.NullString, len(columns))
	targets := make([]any, len(columns))
	for i := range values {
		targets[i] = &values[i]
	}
	if !rows.Next() {
		t.Fatal("EXPLAIN says nothing")
	}
	if err := rows.Scan(targets...); err != nil {
		t.Fatal(err)
	}
	var p plan
	for i, c := range columns {
		switch strings.ToLower(c) {
		case "key":
			p.key = values[i].String
		case "type":
			p.typ = values[i].String
		case "extra":
			p.extra = values[i].String
		}
	}
	return p
}

func TestPlans(t *testing.T) {
	const batch = 100
	for _, size := range []struct{ published, waiting int }{{0, 0}, {0, 1}, {900, 100}, {90_000, 10_000}, {0, 100_000}} {
		t.Run(fmt.Sprintf("%d published, %d waiting", size.published, size.waiting), func(t *testing.T) {
			each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
				fill(t, db, size.published, size.waiting)
				proxy := mysqlproxy.Start(t, server.Addr)
				store := orderevents.NewStore(open(t, via(t, server, proxy.Addr(), nil)))

				b, err := store.Claim(t.Context(), outbox.ClaimRequest{Owner: storesuite.NewOwner(), Limit: batch, Lease: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				if want := min(batch, size.waiting); len(b.Events) != want {
					t.Fatalf("%d events were claimed, want %d", len(b.Events), want)
				}
				claim := explain(t, server, db, sent(t, proxy, "SKIP LOCKED"))
				if claim.key != "ix_outbox_event_claim" || strings.Contains(claim.extra, "filesort") || strings.Contains(claim.extra, "temporary") {
					t.Errorf("the claim's plan: %+v", claim)
				}
				if len(b.Events) == 0 {
					return
				}
				outcomes := make([]outbox.EventOutcome, len(b.Events))
				for i, e := range b.Events {
					outcomes[i] = outbox.EventOutcome{Key: e.Key, Kind: outbox.OutcomePublished}
				}
				if _, err := store.Settle(t.Context(), b, outcomes); err != nil {
					t.Fatal(err)
				}
				// By primary key, and never by a scan that would lock, or wait for, other rows.
				for _, statement := range []string{sent(t, proxy, "SET lease_owner"), sent(t, proxy, "SET status = 2")} {
					if p := explain(t, server, db, statement); p.key != "PRIMARY" || p.typ != "range" {
						t.Errorf("the plan of %.60q: %+v", statement, p)
					}
				}
			})
		})
	}
}

// sent returns the one statement that has the text.
func sent(t *testing.T, proxy *mysqlproxy.Proxy, text string) string {
	t.Helper()
	for _, s := range proxy.Statements() {
		if strings.Contains(s, text) {
			return s
		}
	}
	t.Fatalf("no statement with %q was sent", text)
	return ""
}

// A claim locks what it takes, and leaves the rest to others.
func TestClaimLocksOnlyItsBatch(t *testing.T) {
	const batch = 100
	for _, waiting := range []int{0, 1000, 100_000} {
		t.Run(fmt.Sprintf("%d waiting", waiting), func(t *testing.T) {
			each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
				fill(t, db, 1000, waiting)
				holdClaim(t, server, batch, 60)
				// Two lock records a row: in the index and in the table.
				if n := recordLocks(t, server, db); n > 2*batch {
					t.Errorf("the claim holds %d record locks, want at most %d", n, 2*batch)
				}
				b, err := orderevents.NewStore(db).Claim(t.Context(),
					outbox.ClaimRequest{Owner: storesuite.NewOwner(), Limit: batch, Lease: time.Minute})
				if err != nil || len(b.Events) != min(batch, waiting) {
					t.Errorf("a second relay got %d events (%v), want a full batch", len(b.Events), err)
				}
			})
		})
	}
}

// A poll must take no lock that a writer would wait for, also while its
// transaction is open, and also when it finds nothing.
func TestClaimMakesNoWriterWait(t *testing.T) {
	for _, waiting := range []int{0, 1000} {
		t.Run(fmt.Sprintf("%d waiting", waiting), func(t *testing.T) {
			each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
				fill(t, db, 50, waiting)
				holdClaim(t, server, 100, 60)
				writer := open(t, via(t, server, "", func(c *mysql.Config) {
					c.Params = map[string]string{"innodb_lock_wait_timeout": "1"}
				}))
				outcome, err := outbox.InTx(t.Context(), writer, func(tx *outbox.Tx) error {
					return orderevents.WriteOrderAccepted(t.Context(), tx, outbox.NewEventID(), acceptedPayload(1))
				})
				if outcome != outbox.Committed {
					t.Errorf("a writer waited for a relay: %v", err)
				}
			})
		})
	}
}

// The locks of a relay that stopped in the middle of a claim, with its connection
// open, must not stay for the eight hours that a server waits by default.
func TestStoppedClaimIsEndedByTheServer(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		var seconds int
		if err := db.QueryRowContext(t.Context(), "SELECT @@session.wait_timeout").Scan(&seconds); err != nil || seconds != 60 {
			t.Errorf("wait_timeout is %d s (%v), want 60", seconds, err)
		}
		writeEvents(t, db, 10)
		holdClaim(t, server, 10, 3)
		store := orderevents.NewStore(db)
		claim := func() int {
			b, err := store.Claim(t.Context(), outbox.ClaimRequest{Owner: storesuite.NewOwner(), Limit: 10, Lease: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			return len(b.Events)
		}
		if n := claim(); n != 0 {
			t.Fatalf("%d events are not locked: the fault did not happen", n)
		}
		for deadline := time.Now().Add(20 * time.Second); claim() == 0; {
			if time.Now().After(deadline) {
				t.Fatal("the locks of the stopped relay stay")
			}
			time.Sleep(100 * time.Millisecond) // what is waited for is the server's clock
		}
	})
}

// holdClaim leaves the transaction of a claim open on the server, after it has
// read what is due, until the server ends it
// after so many seconds.
func holdClaim(t *testing.T, server dbtest.Database, batch, seconds int) {
	t.Helper()
	proxy := mysqlproxy.Start(t, server.Addr)
	store := orderevents.NewStore(open(t, via(t, server, proxy.Addr(), func(c *mysql.Config) {
		c.Params = map[string]string{"wait_timeout": strconv.Itoa(seconds)}
	})))
	next := func(s string) bool { return strings.Contains(s, "SET lease_owner") || s == "COMMIT" }
	fault := proxy.At(mysqlproxy.HoldRequest, next)
	_, _ = store.Claim(t.Context(), outbox.ClaimRequest{Owner: storesuite.NewOwner(), Limit: batch, Lease: time.Minute})
	<-fault.Hit
}

// recordLocks counts the record locks of the schema's open transactions.
func recordLocks(t *testing.T, server dbtest.Database, db *outbox.DB) int {
	t.Helper()
	query := `SELECT COUNT(*) FROM performance_schema.data_locks WHERE object_schema = DATABASE() AND lock_type = 'RECORD'`
	if server.Flavor == dbserver.MariaDB { // lists no locks; it counts them
		query = `SELECT COALESCE(SUM(trx_rows_locked), 0) FROM information_schema.innodb_trx t
			JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id WHERE p.db = DATABASE()`
	}
	var locks int
	if err := db.QueryRowContext(t.Context(), query).Scan(&locks); err != nil {
		t.Fatal(err)
	}
	return locks
}
