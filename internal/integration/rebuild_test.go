package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// What a statement of source.rebuild returns is refused where it is not what the business row
// tells: with the place, without a value, and with nothing written.
func TestRebuildIsRefused(t *testing.T) {
	config, err := os.ReadFile("../../events.yaml")
	if err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile("../../example/rebuild/order_accepted.sql")
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		dir := t.TempDir()
		name := filepath.Join(dir, "events.yaml")
		write := func(name, text string) {
			t.Helper()
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(name, string(config))
		lanesKind.placed(t, db)
		mustExec(t, db, "INSERT INTO order_line (order_id, line_no, sku, quantity, unit_price) SELECT id, 1, 'hunter2secret', 2, 5 FROM orders")
		mustExec(t, db, "DELETE FROM outbox_event")
		for _, c := range []struct {
			old, new string
			code     int
			want     string
		}{
			{"'order_id', o.id", "'order_id', o.id + 1", 1, "/order_id of the payload is not id of the business row"},
			{"'order_version', 1", "'order_version', 2", 1, "/order_version of the payload is not the aggregate_version that"},
			{"'quantity', l.quantity", "'quantity', l.sku", 1, "/lines/0/quantity does not fit: type"},
			{"WHERE o.acceptance_event_id = ?", "WHERE o.acceptance_event_id = CONCAT(?, 'x')", 1, "returns no row for this event id"},
			{"FROM orders o", "FROM (SELECT * FROM orders UNION ALL SELECT * FROM orders) o", 1, "returns more than one row for this event id"},
			{"1 AS aggregate_version", "NULL AS aggregate_version", 1, "returns NULL as aggregate_version"},
			{"1 AS aggregate_version", "1 AS aggregate_version, 9 AS schema_version", 1, "is none of order.accepted"},
			{"1 AS aggregate_version", "1 AS aggregate_version, o.total", 2, "returns a column other than payload, aggregate_version, schema_version"},
			{"1 AS aggregate_version", "1 AS agregate_version", 2, "returns no column aggregate_version"},
			{"FROM orders o", "FROM ordres o", 2, "can't be run"},
			{"= ?", "= 1", 2, "does not have exactly one ?"},
		} {
			text := strings.Replace(string(good), c.old, c.new, 1)
			if text == string(good) {
				t.Fatalf("the example has no %q", c.old)
			}
			write(filepath.Join(dir, "example", "rebuild", "order_accepted.sql"), text)
			stdout, stderr, code := command(t, "reconcile", "-f", name, "--format", "json", "--dsn", server.DSN, "--from", "1h", "--to", "0s", "--republish", "--yes")
			if code != c.code || !strings.Contains(stdout+stderr, c.want) || strings.Contains(stdout+stderr, "hunter2secret") {
				t.Errorf("%s: %d, want %q in\n%s%s", c.new, code, c.want, stdout, stderr)
			}
			if n := count(t, db, "outbox_event") + count(t, db, "outbox_audit"); n != 0 {
				t.Errorf("%s: %d rows were written", c.new, n)
			}
		}
	})
}
