package integration

import (
	"fmt"
	"testing"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/storesuite"
)

// A claimed event names the schema of its payload where events.yaml has a
// exports.schema_base, and none elsewhere.
func TestClaimedEventsNameTheirSchema(t *testing.T) {
	bases := map[string]string{
		rowsKind.name:        "https://schemas.example.com/rows/",
		lanesDeleteKind.name: "https://schemas.example.com/lanes/",
	}
	eachKind(t, []kind{lanesKind, rowsKind, lanesDeleteKind}, func(t *testing.T, k kind, _ dbtest.Database, db *outbox.DB) {
		k.writeEvents(t, db, 1, 1)
		b := claimN(t, k.newStore(db), storesuite.NewOwner(), 10)
		if len(b.Events) != 1 {
			t.Fatalf("claimed %d events", len(b.Events))
		}
		want := bases[k.name]
		if want != "" {
			want += fmt.Sprintf("%s.v%d.schema.json", b.Events[0].Envelope.Type, b.Events[0].Envelope.SchemaVersion)
		}
		if got := b.Events[0].Envelope.DataSchema; got != want {
			t.Errorf("dataschema is %q, want %q", got, want)
		}
	})
}
