package diag

import "testing"

func TestNearest(t *testing.T) {
	candidates := []string{"string", "int64", "timestamp", "Money", "order.accepted"}
	for word, want := range map[string]string{
		"strnig":         "string",
		"String":         "string",
		"itn64":          "int64",
		"timestmap":      "timestamp",
		"Mony":           "Money",
		"order.acepted":  "order.accepted",
		"order_accepted": "order.accepted",
		"oredr.accepted": "order.accepted",
		"payload":        "",
		"":               "",
	} {
		if got := Nearest(word, candidates); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
