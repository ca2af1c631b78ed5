package integration

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/storesuite"
)

const claimIndex = "ix_outbox_event_claim"

// fill adds published and waiting events, of ten thousand aggregates in turn, by
// the server itself.
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

// access is a row of an EXPLAIN: how one table is read.
type access struct{ table, key, typ, extra string }

// sorts reports whether the server sorts or copies what it has read.
func (a access) sorts() bool {
	return strings.Contains(a.extra, "filesort") || strings.Contains(a.extra, "temporary")
}

// byKey reports whether just the rows that the statement names are read, and
// locked, by primary key. A scan would wait for others' locks.
func (a access) byKey() bool { return a.key == "PRIMARY" && (a.typ == "range" || a.typ == "const") }

func explain(t *testing.T, server dbtest.Database, db *outbox.DB, statement string) []access {
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
	var plan []access
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			t.Fatal(err)
		}
		row := map[string]string{}
		for i, c := range columns {
			row[strings.ToLower(c)] = values[i].String
		}
		plan = append(plan, access{row["table"], row["key"], row["type"], row["extra"]})
	}
	if err := rows.Err(); err != nil || len(plan) == 0 {
		t.Fatalf("EXPLAIN says nothing: %v", err)
	}
	return plan
}

// of returns how the plan reads a table.
func of(t *testing.T, plan []access, table string) access {
	t.Helper()
	for _, a := range plan {
		if a.table == table {
			return a
		}
	}
	t.Fatalf("the plan doesn't read %s: %+v", table, plan)
	return access{}
}

// sent returns a statement that has the text.
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

// readsOf runs a statement that the proxy has seen, and returns how many rows and
// index entries the server has read for it.
func readsOf(t *testing.T, db *outbox.DB, statement string) int {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, s := range []string{"FLUSH STATUS", statement} {
		if _, err := conn.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := conn.QueryContext(t.Context(), "SHOW SESSION STATUS LIKE 'Handler_read%'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	sum := 0
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if err := rows.Err(); err != nil || sum == 0 {
		t.Fatalf("the server has counted no reads: %v", err)
	}
	return sum
}

// eachSize runs fn on outboxes of a kind, from empty to full. explain and reads
// are of a statement that the store has sent.
func eachSize(t *testing.T, k kind, fn func(t *testing.T, waiting int, store outbox.Store, explain func(string) []access, reads func(string) int)) {
	for _, size := range []struct{ published, waiting int }{{0, 0}, {0, 1}, {900, 100}, {0, 1000}, {90_000, 10_000}, {0, 100_000}} {
		t.Run(fmt.Sprintf("%d published, %d waiting", size.published, size.waiting), func(t *testing.T) {
			eachDB(t, k, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
				fill(t, db, size.published, size.waiting)
				proxy := mysqlproxy.Start(t, server.Addr)
				store := k.newStore(open(t, via(t, server, proxy.Addr(), nil)))
				fn(t, size.waiting, store,
					func(text string) []access { return explain(t, server, db, sent(t, proxy, text)) },
					func(text string) int { return readsOf(t, db, sent(t, proxy, text)) })
			})
		})
	}
}

func TestPlansOfRows(t *testing.T) {
	const batch = 100
	eachSize(t, rowsKind, func(t *testing.T, waiting int, store outbox.Store, explain func(string) []access, _ func(string) int) {
		b := claimN(t, store, storesuite.NewOwner(), batch)
		if want := min(batch, waiting); len(b.Events) != want {
			t.Fatalf("%d events were claimed, want %d", len(b.Events), want)
		}
		if claim := of(t, explain("SKIP LOCKED"), "outbox_event"); claim.key != claimIndex || claim.sorts() {
			t.Errorf("the claim's plan: %+v", claim)
		}
		if waiting == 0 {
			return
		}
		settleAll(t, store, b, outbox.OutcomePublished)
		for _, text := range []string{"SET lease_owner", "SET status = 2"} {
			if a := of(t, explain(text), "outbox_event"); !a.byKey() {
				t.Errorf("the plan of %q: %+v", text, a)
			}
		}
	})
}

func TestPlansOfLanes(t *testing.T) {
	const batch, lanes = 100, 64
	eachSize(t, lanesKind, func(t *testing.T, waiting int, store outbox.Store, explain func(string) []access, reads func(string) int) {
		owner := storesuite.NewOwner()
		b := claimN(t, store, owner, batch)
		due := of(t, explain("MIN(available_at)"), "outbox_event")
		// Where there is next to nothing to read, either way will do.
		if loose := strings.Contains(due.extra, "Using index for group-by"); due.key != claimIndex || waiting >= 1000 && !loose {
			t.Errorf("due lanes are not found by a loose index scan: %+v", due)
		}
		if n := reads("MIN(available_at)"); n > 10*lanes {
			t.Errorf("to find the due lanes the server reads %d rows and entries, with %d events waiting", n, waiting)
		}
		if waiting == 0 {
			if len(b.Events) != 0 {
				t.Fatalf("%d events were claimed from an empty outbox", len(b.Events))
			}
			return
		}
		if len(b.Events) == 0 {
			t.Fatal("nothing was claimed")
		}
		inIndexOrder := func(name string) {
			t.Helper()
			if a := of(t, explain("name: "+name), "outbox_event"); a.key != claimIndex || a.typ != "range" || a.sorts() {
				t.Errorf("the plan of %s: %+v", name, a)
			}
		}
		inIndexOrder("SelectLaneEvents")

		// A failed head makes the next read leave its aggregate out.
		outcomes := allOutcomes(b, outbox.OutcomePublished)
		outcomes[0] = outbox.EventOutcome{Key: outcomes[0].Key, Kind: outbox.OutcomeRetry, Backoff: time.Hour}
		if _, err := store.Settle(t.Context(), b, outcomes); err != nil {
			t.Fatal(err)
		}
		claimN(t, store, owner, batch)
		inIndexOrder("SelectUnblockedEvents")
		if len(outcomes) > 1 {
			if a := of(t, explain("SET status = 2"), "outbox_event"); !a.byKey() {
				t.Errorf("the mark's plan: %+v", a)
			}
		}
	})
}
