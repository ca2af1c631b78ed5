package schemadiff_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/ddl"
	"github.com/outboxgen/outboxgen/internal/schemadiff"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
)

func parse(t testing.TB, name, text string) sqlgen.Layouts {
	t.Helper()
	m, problems := spec.Parse(name, []byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	layouts, problems := sqlgen.Tables(m)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return layouts
}

func file(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// layouts are those of settings of the outbox.
func layouts(t testing.TB, settings string) sqlgen.Layouts {
	t.Helper()
	return parse(t, "events.yaml", `version: 1
service: orders
go: { package: orderevents, out: gen/orderevents }
outbox: { `+settings+` }
events:
  order.accepted:
    aggregate: { type: order, id: order_id, version: order_version }
    fields: { order_id: int64, order_version: int64 }
`)
}

func create(t testing.TB, db dbtest.Database, schema ddl.Schema) {
	t.Helper()
	for _, statement := range schema.Statements() {
		db.Exec(t, statement.SQL)
	}
}

func diff(t testing.TB, pool *sql.DB, want sqlgen.Layouts, options schemadiff.Options) schemadiff.Plan {
	t.Helper()
	live, err := schemadiff.Read(t.Context(), pool, schemadiff.Names(want))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := schemadiff.Diff(want, live, options)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// apply runs what is printed, as a person would.
func apply(t testing.TB, db dbtest.Database, plan schemadiff.Plan) {
	t.Helper()
	for _, statement := range ddl.Split(plan.SQL()) {
		db.Exec(t, statement.SQL)
	}
}

func requireEmpty(t testing.TB, plan schemadiff.Plan) {
	t.Helper()
	if len(plan.Findings) > 0 || len(plan.Steps) > 0 {
		t.Fatalf("a difference is left: %v\n%s", plan.Findings, plan.SQL())
	}
}

func messages(plan schemadiff.Plan) string {
	var out []string
	for _, f := range plan.Findings {
		out = append(out, f.Message+" ["+f.Rule+"]")
	}
	return strings.Join(out, "\n")
}

// seed puts a row into each table.
func seed(t testing.TB, db dbtest.Database) {
	t.Helper()
	db.Exec(t,
		`INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, event_version, schema_version, payload, headers, created_at, available_at)
		VALUES ('e1', 'order', '7', 'order.accepted', 1, 1, '{"a": 1}', '{}', '2026-01-02 03:04:05.5', '2026-01-02 03:04:05')`,
		`INSERT INTO outbox_failure VALUES ('e1', 'failed', 'why', '2026-01-02 03:04:05')`,
		`INSERT INTO outbox_lane (lane, lease_owner) VALUES (3, 'me')`,
		`INSERT INTO outbox_relay VALUES ('me', 'host', 1, '2026-01-02 03:04:05', '2026-01-02 03:04:05')`,
		`INSERT INTO consumed_event (consumer_name, event_id, consumed_at) VALUES ('c', 'e1', '2026-01-02 03:04:05')`,
		`INSERT INTO consumer_failure VALUES ('c', 'e1', 2, 'why', '2026-01-02 03:04:05')`,
		`INSERT INTO parked_event (consumer_name, event_id, event_type, kind, reason, attempts, attributes, headers, body, parked_at)
		VALUES ('c', 'e1', 'order.accepted', 'attempts', 'why', 3, '{}', '{}', 'x', '2026-01-02 03:04:05')`,
		`INSERT INTO consumed_version VALUES ('c', 'order', '7', 1)`,
		`INSERT INTO outbox_task VALUES ('purge', 'me', '2026-01-02 03:04:05')`,
	)
}

// rows are the rows of each table as a text, by the columns' names.
func rows(t testing.TB, db dbtest.Database) map[string]string {
	t.Helper()
	out := map[string]string{}
	pool := db.Open(t)
	for _, table := range layouts(t, "ordering: aggregate").Want.Tables {
		out[table.Name] = ""
		var columns []string
		for _, c := range table.Columns {
			columns = append(columns, c.Name)
		}
		r, err := pool.QueryContext(context.Background(), "SELECT "+strings.Join(columns, ", ")+" FROM "+table.Name+" ORDER BY 1, 2")
		if err != nil {
			t.Fatal(err)
		}
		for r.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new([]byte)
			}
			if err := r.Scan(values...); err != nil {
				t.Fatal(err)
			}
			for i := range values {
				out[table.Name] += fmt.Sprintf("%s=%s ", columns[i], *values[i].(*[]byte))
			}
			out[table.Name] += "\n"
		}
		if err := r.Err(); err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
	}
	return out
}
