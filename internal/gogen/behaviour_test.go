package gogen

import (
	"strings"
	"testing"
)

// TestBehaviour runs tests of what generated code does beside the code.
func TestBehaviour(t *testing.T) {
	m := newModule(t)
	m.add("shop", input(t, parse(t, read(t, "testdata/behaviour/events.yaml"))))
	m.write("shop/gen/shopevents/behaviour_test.go", read(t, "testdata/behaviour/behaviour_test.go.txt"))
	m.mustRun("test", "-count=1", "./shop/gen/shopevents")
}

// TestMustNotCompile: mistakes that the compiler is to find.
func TestMustNotCompile(t *testing.T) {
	m := newModule(t)
	yaml := read(t, "testdata/example/events.yaml")
	m.add("shop", input(t, parse(t, yaml)))
	const events = testModule + "/shop/gen/orderevents"
	for name, c := range map[string]struct{ imports, body, want string }{
		"a pool is no transaction": {
			`"context"; "database/sql"; "github.com/google/uuid"; e "` + events + `"`,
			`func f(db *sql.DB) error { return e.WriteOrderAccepted(context.Background(), db, uuid.UUID{}, e.OrderAccepted{}) }`,
			"StmtContext",
		},
		"an outbox.DB is no transaction": {
			`"context"; "github.com/google/uuid"; "github.com/outboxgen/outboxgen/runtime/outbox"; e "` + events + `"`,
			`func f(db *outbox.DB) error { return e.WriteOrderAccepted(context.Background(), db, uuid.UUID{}, e.OrderAccepted{}) }`,
			"StmtContext",
		},
		"a handler lacks a method": {
			`"github.com/outboxgen/outboxgen/runtime/outbox"; e "` + events + `"; h "` + testModule + `/shop/consumers/salesreport"`,
			`func f(db *outbox.DB) any { return e.NewNotificationPlanner(db, &h.Handler{}, nil) }`,
			"HandleOrderCancelled",
		},
		"an enum of another type": {
			`e "` + events + `"`,
			`var m = e.Money{Currency: e.OrderCancelledReasonFraud}`,
			"Currency",
		},
	} {
		folder := strings.ReplaceAll(name, " ", "")
		m.write("wrong/"+folder+"/x.go", "package x\n\nimport (\n"+strings.ReplaceAll(c.imports, "; ", "\n")+"\n)\n\n"+c.body+"\n")
		out, err := m.run("build", "./wrong/"+folder)
		if err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	m.mustRun("build", "./shop/...")
}
