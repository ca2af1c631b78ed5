package brokersuite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Event makes an envelope of type TypeA.
func Event(aggregateID string, version int64) outbox.Envelope {
	return outbox.Envelope{
		ID:               outbox.NewEventID(),
		Source:           Source,
		Type:             TypeA,
		AggregateType:    "order",
		AggregateID:      aggregateID,
		AggregateVersion: version,
		SchemaVersion:    1,
		Time:             time.Date(2026, 2, 3, 4, 5, 6, 789_012_000, time.UTC),
		Data:             json.RawMessage(fmt.Sprintf(`{"version": %d}`, version)),
	}
}

// compare shows how two envelopes differ; no headers are like empty ones.
func compare(want, got outbox.Envelope) string {
	sameBytes := cmp.Comparer(func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), sameBytes)
}

func events(aggregateID string, n int) []outbox.Envelope {
	all := make([]outbox.Envelope, n)
	for i := range all {
		all[i] = Event(aggregateID, int64(i+1))
	}
	return all
}

func compareIDs(t *testing.T, got, want []outbox.Envelope) {
	t.Helper()
	ids := func(all []outbox.Envelope) (ids []string) {
		for _, e := range all {
			ids = append(ids, e.ID.String())
		}
		return ids
	}
	if diff := cmp.Diff(ids(want), ids(got)); diff != "" {
		t.Errorf("stored events (-want +got):\n%s", diff)
	}
}

// awkwardEvents hold what a wire form gets wrong.
func awkwardEvents() []outbox.Envelope {
	var all []outbox.Envelope
	add := func(change func(*outbox.Envelope)) {
		e := Event("order-1", 1)
		change(&e)
		all = append(all, e)
	}
	for _, id := range []string{
		"plain", "with blank", " blanks around ", "100%", "%41", `"quoted"`, `back\slash`, "Ärger", "日本", "€ 😀", "a:b", "a\tb", "\x7f\u0085",
		strings.Repeat("ü", 64),
	} {
		add(func(e *outbox.Envelope) { e.AggregateID = id })
	}
	add(func(e *outbox.Envelope) { e.AggregateVersion, e.SchemaVersion = 9223372036854775807, 2147483647 })
	add(func(e *outbox.Envelope) { e.AggregateVersion = -1 })
	add(func(e *outbox.Envelope) { e.RepeatCause = outbox.RepeatLeaseExpired })
	add(func(e *outbox.Envelope) {
		e.Headers = map[string]string{
			"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			"tracestate":  "a=1,b=2", "baggage": "k=%20v", "tenant": "Österreich", "empty": "", "quoted": `"x"`,
		}
	})
	add(func(e *outbox.Envelope) {
		e.Data = json.RawMessage(`{"n": 12345678901234567890123, "f": 1.0, "s": "😀\u0000", "list": [1, 2]}`)
	})
	add(func(e *outbox.Envelope) { e.Data = json.RawMessage(`"` + strings.Repeat("x", 100_000) + `"`) })
	add(func(e *outbox.Envelope) { e.Type, e.AggregateType = TypeB, "Größe" })
	return all
}
