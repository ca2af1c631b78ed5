package gogen

import (
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/lockfile"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// locked is what the lock of a file is read as, after some edits.
func locked(t *testing.T, model *spec.Model, edits ...string) *spec.Model {
	t.Helper()
	fixtures, problems := Fixtures(Input{Model: model})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	text := string(lockfile.Render(model, nil, fixtures))
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			t.Fatalf("no %s in\n%s", edits[i], text)
		}
		text = strings.ReplaceAll(text, edits[i], edits[i+1])
	}
	lock, problems := spec.ParseLock("events.lock.yaml", []byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return lock
}

const lockedShop = `version: 1
service: shop
go: { package: events, out: gen/events }
types:
  Money: { fields: { amount: decimal, currency: { enum: [EUR, USD] } } }
events:
  order.paid:
    aggregate: { type: order, id: order_id, version: order_version }
    fields:
      order_id: int64
      order_version: int64
      total: Money
      lines: list<Money>
      rates: map<Money>
      note: json
`

// What the lock has is what the tests hold on to, whatever today's sample is: in the
// order of today's fields, with what has come since.
func TestLockedFixture(t *testing.T) {
	lock := locked(t, parse(t, lockedShop), "12.5", "7.25", `"note":{"key":["value",1]}`, `"note":{"b":1,"a":[2,{}]}`)
	now := strings.NewReplacer(
		"      order_id: int64\n      order_version: int64\n", "      order_version: int64\n      channel?: string\n      order_id: int64\n",
		"{ amount: decimal, currency: { enum: [EUR, USD] } }", `{ currency: { enum: [USD, EUR] }, amount: decimal, "cents?": int32 }`,
	).Replace(lockedShop)
	model := parse(t, now)
	const money = `{"currency":"EUR","amount":"7.25","cents":42}`
	const want = `{"order_version":9007199254740993,"channel":"channel","order_id":9007199254740993,` +
		`"total":` + money + `,"lines":[` + money + `],"rates":{"key":` + money + `},"note":{"b":1,"a":[2,{}]}}`

	in := input(t, model)
	in.Locked = lock
	if src := dataOf(generate(t, in), "events_gen_test.go"); !strings.Contains(src, "const fixtureOrderPaid = `"+want+"`\n") {
		t.Errorf("no %s in\n%s", want, src)
	}
	fixtures, problems := Fixtures(Input{Model: model, Locked: lock})
	if got := fixtures[model.Events[0].Newest()]; got != want || len(problems) > 0 {
		t.Errorf("to lock: %s, %v", got, problems)
	}
}

// A lock without fixtures, or of other versions, changes nothing.
func TestNotLocked(t *testing.T) {
	model := parse(t, lockedShop)
	plain := dataOf(generate(t, input(t, model)), "events_gen_test.go")
	for _, edits := range [][]string{{"        fixture: ", "        # "}, {"      1:\n", "      2:\n"}, {"order.paid", "order.settled"}} {
		in := input(t, model)
		in.Locked = locked(t, model, edits...)
		if dataOf(generate(t, in), "events_gen_test.go") != plain {
			t.Errorf("%q: the generated tests differ", edits)
		}
	}
}

// Generated tests pass on what was locked, upcasts among them, and fail once code
// writes something else.
func TestLockedCompile(t *testing.T) {
	m := newModule(t)
	versions := parse(t, read(t, "testdata/versions/events.yaml"))
	in := input(t, versions)
	in.Locked = locked(t, versions)
	m.add("same", in)
	all := parse(t, everything("", allKinds()...))
	in = input(t, all)
	in.Locked = locked(t, all)
	m.add("everything", in)
	m.mustRun("test", "-vet=off", "./same/...", "./everything/...")

	in = input(t, versions)
	in.Locked = locked(t, versions, `"12.5"`, `"12.50"`) // written by another type than today's
	m.add("changed", in)
	out, err := m.run("test", "-vet=off", "./changed/...")
	if err == nil || !strings.Contains(out, "Fixture") || !strings.Contains(out, `"12.50"`) {
		t.Errorf("the wire form has changed, and the generated tests pass: %v\n%s", err, out)
	}
}
