package cli

import (
	"bytes"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/outboxgen/outboxgen/internal/ops"
)

// Events that wait although relays are alive lead to the relays' logs; where a pause or the want
// of relays is the reason, that is said alone.
func TestStatusSaysWhereToLook(t *testing.T) {
	const hint = "events have been due for long"
	relays, late := []ops.Relay{{Owner: "r"}}, &ops.Waiting{Seconds: 20}
	for name, c := range map[string]struct {
		status ops.Status
		want   bool
	}{
		"the broker is away": {ops.Status{Relays: relays, Oldest: late}, true},
		"just written":       {ops.Status{Relays: relays, Oldest: &ops.Waiting{Seconds: 1}}, false},
		"nothing waits":      {ops.Status{Relays: relays}, false},
		"no relay":           {ops.Status{Oldest: late}, false},
		"paused":             {ops.Status{Relays: relays, Oldest: late, Pause: &ops.Pause{}}, false},
	} {
		var out bytes.Buffer
		table := &tableWriter{w: tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)}
		statusTable(table, c.status)
		if err := table.w.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), hint); got != c.want {
			t.Errorf("%s: hint %v, want %v:\n%s", name, got, c.want, out.String())
		}
	}
}
