package schemadiff_test

import (
	"database/sql"
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
