package spec

import (
	"strings"
	"testing"
)

const goodLock = `version: 1
service: orders
outbox: { ordering: none, table_prefix: shop_ }
events:
  order.accepted:
    aggregate: { type: order, id: order_id, version: order_version }
    retired: [1, 2]
    versions:
      3:
        fields: { order_id: int64, order_version: int64 }
        fixture: '{"order_id":1,"order_version":2}'
consumers:
  audit: { handles: [order.accepted] }
retired:
  events: [order.paid]
  consumers: [books]
`

func TestParseLock(t *testing.T) {
	src := goodLock
	m, problems := ParseLock("events.lock.yaml", []byte(src))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	ev := m.Events[0]
	if len(ev.Retired) != 2 || ev.Retired[1] != 2 || ev.Newest().Fixture != `{"order_id":1,"order_version":2}` {
		t.Errorf("the event is %+v, its version %+v", ev, ev.Newest())
	}
	if r := m.Retired; len(r.Events) != 1 || r.Events[0].Text != "order.paid" || r.Events[0].Pos.Line != 15 || len(r.Consumers) != 1 || r.Consumers[0].Text != "books" {
		t.Errorf("retired: %+v", r)
	}
	if m.Outbox.OrderingPos.Line != 3 {
		t.Errorf("the ordering is at %v", m.Outbox.OrderingPos)
	}

	for edit, want := range map[[2]string]string{
		{"version: 1\n", "version: 2\n"}:                          "unsupported-version",
		{"service: orders\n", ""}:                                 "missing-key",
		{"service: orders\n", "service: orders\ngo: {}\n"}:        "unknown-key",
		{"retired: [1, 2]", "retired: [one]"}:                     "bad-version-number",
		{"retired: [1, 2]", "retired: 1"}:                         "wrong-shape",
		{"events: [order.paid]", "events: [Order]"}:               "bad-name",
		{"consumers: [books]", "queues: [books]"}:                 "unknown-key",
		{`'{"order_id":1,"order_version":2}'`, `'{"order_id":1'`}: "bad-fixture",
		{`'{"order_id":1,"order_version":2}'`, `'null'`}:          "bad-fixture",
		{`'{"order_id":1,"order_version":2}'`, `'[1]'`}:           "bad-fixture",
		{`"order_id":1`, `"order":1`}:                             "bad-fixture",
		{"handles: [order.accepted]", "handles: [order.paid]"}:    "unknown-event",
	} {
		broken := strings.Replace(src, edit[0], edit[1], 1)
		if broken == src {
			t.Fatalf("nothing to replace: %q", edit)
		}
		m, problems := ParseLock("events.lock.yaml", []byte(broken))
		if m != nil || len(problems) == 0 || problems[0].Rule != want || !problems[0].Pos.IsValid() {
			t.Errorf("%q: %v, want %s", edit, problems, want)
		}
	}
}

// In events.yaml the keys of a lock are unknown.
func TestLockKeysAreTheLocksOwn(t *testing.T) {
	const src = `version: 1
service: orders
go: { package: orderevents, out: gen/orderevents }
events:
  order.accepted:
    aggregate: { type: order, id: order_id, version: order_version }
    versions:
      2:
        fields: { order_id: int64, order_version: int64 }
`
	if _, problems := Parse("events.yaml", []byte(src)); len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, edit := range [][2]string{
		{"    versions:\n", "    retired: [1]\n    versions:\n"},
		{"        fields", "        fixture: '{}'\n        fields"},
		{"events:\n", "retired: { events: [order.paid] }\nevents:\n"},
	} {
		if _, problems := Parse("events.yaml", []byte(strings.Replace(src, edit[0], edit[1], 1))); len(problems) != 1 || problems[0].Rule != "unknown-key" {
			t.Errorf("%q: %v", edit, problems)
		}
	}
}

// A lock has no go_name, so that names which clash in Go are none of its concern.
func TestLockHasNoGoNames(t *testing.T) {
	const src = `version: 1
service: orders
types:
  OrderPaid: { fields: { a_b: string, ab: string, validate: string, a__b: string } }
events:
  order.paid:
    aggregate: { type: order, id: order_id, version: order_version }
    fields: { order_id: int64, order_version: int64, x: OrderPaid }
  order-paid:
    aggregate: { type: order, id: order_id, version: order_version }
    fields: { order_id: int64, order_version: int64 }
consumers:
  new: { handles: [order.paid] }
  a.b: { handles: [order.paid] }
  a-b: { handles: [order.paid] }
`
	if _, problems := ParseLock("events.lock.yaml", []byte(src)); len(problems) > 0 {
		t.Error(problems)
	}
}

// A fixture holds values of its version's types: an edited one is no longer what was
// published.
func TestFixtureFitsItsVersion(t *testing.T) {
	const src = `version: 1
service: orders
types:
  Money: { fields: { amount: decimal, "note?": string } }
events:
  order.paid:
    aggregate: { type: order, id: id, version: ver }
    versions:
      1:
        fields:
          id: int64
          ver: int32
          kind: { enum: [home, work] }
          total: Money
          lines: list<Money>
          tags: map<bool>
          rate: float64
          at: timestamp
          day: date
          wait: duration
          key: uuid
          raw: bytes
          any: json
          "maybe?": string
        fixture: '{"id":9007199254740993,"ver":42,"kind":"work","total":{"amount":"12.5"},"lines":[{"amount":"1","note":"n"}],"tags":{"k":true},"rate":0.5,"at":"2026-01-02T03:04:05.000006Z","day":"2026-01-02","wait":"1h30m","key":"019b76da-a800-7000-8000-000000000001","raw":"AQI=","any":null}'
`
	if _, problems := ParseLock("events.lock.yaml", []byte(src)); len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, edit := range [][2]string{
		{`"work",`, `"zzz",`},
		{`"work",`, `1,`},
		{`"id":9007199254740993`, `"id":"9007199254740993"`},
		{`"id":9007199254740993`, `"id":1.5`},
		{`"id":9007199254740993,`, ``},
		{`"ver":42`, `"ver":9007199254740993`},
		{`"amount":"12.5"`, `"amount":12.5`},
		{`"amount":"12.5"`, `"amount":"x"`},
		{`{"amount":"12.5"}`, `{}`},
		{`{"amount":"12.5"}`, `{"amount":"12.5","more":1}`},
		{`{"amount":"12.5"}`, `null`},
		{`"note":"n"`, `"note":null`},
		{`[{"amount":"1","note":"n"}]`, `{}`},
		{`[{"amount":"1","note":"n"}]`, `null`},
		{`{"k":true}`, `{"k":1}`},
		{`"rate":0.5`, `"rate":"0.5"`},
		{`"at":"2026-01-02T03`, `"at":"2026-01-02 03`},
		{`"day":"2026-01-02"`, `"day":"2026-13-02"`},
		{`"1h30m"`, `"soon"`},
		{`"019b76da-`, `"x19b76da-`},
		{`"AQI="`, `"?"`},
		{`"any":null`, `"maybe":""`},
	} {
		broken := strings.Replace(src, edit[0], edit[1], 1)
		if broken == src {
			t.Fatalf("nothing to replace: %q", edit)
		}
		if _, problems := ParseLock("events.lock.yaml", []byte(broken)); len(problems) != 1 || problems[0].Rule != "bad-fixture" {
			t.Errorf("%q: %v", edit, problems)
		}
	}
}
