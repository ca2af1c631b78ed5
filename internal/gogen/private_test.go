package gogen

import (
	"strings"
	"testing"
)

// TestForeignPrivate: a Go type of the user's own that stands for a type with a private
// field is not printed, at whatever depth the field is.
func TestForeignPrivate(t *testing.T) {
	const yaml = `version: 1
service: orders
go: { package: orderevents, out: gen/orderevents, types: { Customer: example.com/shop/crm.Customer } }
types:
  Customer: { fields: { contact: Contact, friends: list<Customer> } }
  Contact: { fields: { email: EMAIL } }
  Shop: { fields: { owner: Customer } }
events:
  order.accepted:
    aggregate: { type: order, id: order_id, version: order_version }
    fields: { order_id: int64, order_version: int64, buyers: list<Customer>, shop: Shop }
`
	private := generated(t, strings.Replace(yaml, "EMAIL", "{ type: string, pii: true }", 1))
	for _, want := range []string{`Buyers:       "[pii]"`, `Owner: "[pii]"`, "func (p Shop) Format("} {
		if !strings.Contains(private, want) {
			t.Errorf("there is no %s in\n%s", want, private)
		}
	}
	if public := generated(t, strings.Replace(yaml, "EMAIL", "string", 1)); strings.Contains(public, "[pii]") {
		t.Error("public fields are not printed")
	}
}

// generated is the text of events.gen.go.
func generated(t *testing.T, yaml string) string {
	t.Helper()
	files, problems := Generate(input(t, parse(t, yaml)))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, f := range files {
		if strings.HasSuffix(f.Path, "/events.gen.go") {
			return string(f.Data)
		}
	}
	t.Fatal("no events.gen.go")
	return ""
}
