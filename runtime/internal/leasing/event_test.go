package leasing

import "testing"

// The name of the file is the one that internal/spec gives a version's schema.
func TestDataSchema(t *testing.T) {
	row := Row{EventID: "019b76da-a800-7000-8000-000000000001", EventType: "order.accepted", SchemaVersion: 2}
	for base, want := range map[string]string{
		"":                                    "",
		"https://schemas.example.com/orders/": "https://schemas.example.com/orders/order.accepted.v2.schema.json",
	} {
		if got := NewEvent(row, Origin{Source: "orders", SchemaBase: base}).Envelope.DataSchema; got != want {
			t.Errorf("with the base %q: %q, want %q", base, got, want)
		}
	}
}
