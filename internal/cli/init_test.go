package cli

import (
	"testing"

	"github.com/outboxgen/outboxgen/internal/fileset"
	"github.com/outboxgen/outboxgen/internal/lint"
	"github.com/outboxgen/outboxgen/internal/spec"
)

func TestServiceName(t *testing.T) {
	for importPath, want := range map[string]string{
		"example.com/orders":             "orders/order",
		"example.com/acme/order-service": "order/order",
		"example.com/go-orders/v2":       "orders/order",
		"example.com/Order_Items.v1":     "order-items/item",
		"orders":                         "orders/order",
		"example.com/address":            "address/address",
		"example.com/v2":                 "example-com/com",
		"example.com/func":               "orders/order",
		"example.com/main":               "orders/order",
		"example.com/type-map":           "type-map/map",
		"example.com/1234":               "orders/order",
		"example.com/bestellübersicht":   "bestell-bersicht/bersicht",
	} {
		s := newStarter(importPath, "events.yaml")
		if got := s.Service + "/" + s.Thing; got != want {
			t.Errorf("%s: %s, not %s", importPath, got, want)
		}
		events, err := s.render(starterEvents)
		if err != nil {
			t.Fatal(err)
		}
		model, problems := spec.Parse("events.yaml", events)
		if len(problems) > 0 {
			t.Fatalf("%s: the starter has %v", importPath, problems)
		}
		if advice := lint.Check(model); len(advice) > 0 {
			t.Errorf("%s: lint says of the starter: %v", importPath, advice)
		}
		if fileset.Ours(events) {
			t.Errorf("%s: the starter has the header of generated files", importPath)
		}
	}
}
