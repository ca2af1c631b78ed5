package integration

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/example/schema"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/ops"
)

// reconciled is what outboxgen reconcile --format json prints.
type reconciled struct {
	Clipped   []ops.Clip
	Notes     []string
	Counts    map[string]int
	Findings  []ops.Finding
	Truncated bool
	Republish *struct {
		DryRun  bool `json:"dry_run"`
		Results []ops.Republished
	}
}

// runReconcile runs the command on the example's events.yaml.
func runReconcile(t testing.TB, dsn string, args ...string) (r reconciled, stderr string, code int) {
	t.Helper()
	stdout, stderr, code := command(t, append([]string{"reconcile", "-f", "../../events.yaml", "--format", "json", "--dsn", dsn}, args...)...)
	if code < 2 {
		if err := json.Unmarshal([]byte(stdout), &r); err != nil {
			t.Fatalf("%v\n%s%s", err, stdout, stderr)
		}
		return r, stderr, code
	}
	return r, stderr + stdout, code // an error is on stdout, as JSON, or behind an answer on stderr
}

// findings are the differences as texts, sorted as they came.
func (r reconciled) findings() []string {
	list := []string{}
	for _, f := range r.Findings {
		list = append(list, fmt.Sprintf("%s %s %s", f.Check, f.EventID, f.Consumer))
	}
	return list
}

// filled is a table of orders with their events, all of them published and applied by both
// consumers, one every step from begin on. Row n, from 1 on, has the order n.
type filled struct {
	begin time.Time
	step  time.Duration
	rows  int
}

// idOf is the event id of row n, in SQL: a UUIDv7.
func (f filled) idOf(n string) string {
	ms := fmt.Sprintf("(%d + %s * %d)", f.begin.UnixMilli(), n, f.step.Milliseconds())
	return fmt.Sprintf("LOWER(CONCAT(LPAD(HEX(%[1]s DIV 65536), 8, '0'), '-', LPAD(HEX(%[1]s MOD 65536), 4, '0'), '-7000-8000-', LPAD(HEX(%[2]s), 12, '0')))", ms, n)
}

func (f filled) atOf(n string) string {
	return fmt.Sprintf("('1970-01-01' + INTERVAL (%d + %s * %d) MICROSECOND)", f.begin.UnixMicro(), n, f.step.Microseconds())
}

// fillOrders makes the example's tables and fills them.
func fillOrders(t testing.TB, server dbtest.Database, f filled) *sql.DB {
	t.Helper()
	server.Exec(t, schema.Statements()...)
	server.Exec(t, orderevents.Schema()...)
	cfg := server.Config()
	cfg.InterpolateParams = true
	db, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	mustExec(t, db, "CREATE TABLE thousand (n INT NOT NULL PRIMARY KEY)")
	digits := "(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
	mustExec(t, db, fmt.Sprintf("INSERT INTO thousand SELECT a.d + 10 * b.d + 100 * c.d FROM %[1]s a, %[1]s b, %[1]s c", digits))
	mustExec(t, db, "INSERT INTO notification_channel (tenant_id, channel) VALUES (1, 'mail'), (2, 'mail'), (3, 'mail'), (4, 'mail')")
	for from := 1; from <= f.rows; from += 20_000 {
		to := min(from+19_999, f.rows)
		numbers := fmt.Sprintf("(SELECT %d + a.n + 1000 * b.n AS n FROM thousand a, thousand b WHERE b.n < 20 ORDER BY b.n, a.n) x WHERE x.n <= %d", from, to)
		id, at := f.idOf("x.n"), f.atOf("x.n")
		for _, insert := range []string{
			"INSERT INTO orders (id, tenant_id, request_id, status, currency, total, acceptance_event_id, created_at) SELECT x.n, 1, x.n, 'accepted', 'EUR', 10, " + id + ", " + at + " FROM " + numbers,
			"INSERT INTO order_line (order_id, line_no, sku, quantity, unit_price) SELECT x.n, 1, 'apple', 2, 5 FROM " + numbers,
			"INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, event_version, schema_version, payload, headers, created_at, status, available_at, published_at) SELECT " +
				id + ", 'order', x.n, 'order.accepted', 1, 2, '" + payloadOfOne + "', '{}', " + at + ", 2, " + at + ", " + at + " + INTERVAL 1 SECOND FROM " + numbers,
			"INSERT INTO consumed_event (consumer_name, event_id, consumed_at) SELECT 'notification-planner', " + id + ", " + at + " + INTERVAL 2 SECOND FROM " + numbers,
			"INSERT INTO consumed_event (consumer_name, event_id, consumed_at) SELECT 'sales-report', " + id + ", " + at + " + INTERVAL 2 SECOND FROM " + numbers,
		} {
			mustExec(t, db, insert)
		}
	}
	return db
}

// payloadOfOne is a payload of order.accepted.
const payloadOfOne = `{"order_id":1,"order_version":1,"tenant_id":1,"lines":[{"sku":"apple","quantity":2,"unit_price":{"amount":"5.0000","currency":"EUR"}}],"total":{"amount":"10.0000","currency":"EUR"},"accepted_at":"2026-11-30T00:00:00.000000Z"}`

// eventIDs are the ids of rows.
func (f filled) eventIDs(t testing.TB, db *sql.DB, rows ...int) []string {
	t.Helper()
	ids := make([]string, len(rows))
	for i, n := range rows {
		if err := db.QueryRowContext(t.Context(), "SELECT acceptance_event_id FROM orders WHERE id = ?", n).Scan(&ids[i]); err != nil {
			t.Fatal(err)
		}
	}
	return ids
}
