package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/example/schema"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// What can't be compared ends with exit code 2, and says what to do.
func TestReconcileBadInput(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		refused := func(want string, args ...string) {
			t.Helper()
			_, stderr, code := runReconcile(t, server.DSN, args...)
			if code != 2 || !strings.Contains(stderr, want) || !strings.Contains(stderr, "hint") {
				t.Errorf("%v: %d, want %q in\n%s", args, code, want, stderr)
			}
		}
		server.Exec(t, orderevents.Schema()...)
		refused("the table orders, the source of order.accepted, is not in this database, or this user may not see it")
		server.Exec(t, "CREATE VIEW orders AS SELECT 1 AS id")
		refused("is a view")
		server.Exec(t, "DROP VIEW orders", "CREATE TABLE orders (id DECIMAL(10, 2) PRIMARY KEY, acceptance_event_id CHAR(36) NOT NULL)")
		refused("has no column created_at, which is created_at of the source")
		server.Exec(t, "ALTER TABLE orders ADD COLUMN created_at BIGINT NOT NULL")
		refused("has a column created_at of type bigint, which can't be created_at of the source")
		server.Exec(t, "ALTER TABLE orders MODIFY created_at DATETIME NOT NULL")
		refused("has a primary key with a column of type decimal")
		server.Exec(t, "ALTER TABLE orders DROP PRIMARY KEY")
		refused("has no primary key")
		server.Exec(t, "DROP TABLE orders")
		server.Exec(t, schema.Statements()...)

		refused("the window is in the future", "--from", time.Now().Add(time.Hour).Format(time.RFC3339), "--to", time.Now().Add(2*time.Hour).Format(time.RFC3339))
		refused("the window ends before it begins", "--from", "1h", "--to", "2h")
		refused("nothing of this window can be known any more", "--day", "2020-01-31")
		refused("both --day and --from or --to are given", "--day", "2020-01-31", "--to", "1h")
		refused("is not a day", "--day", "31.1.2020")
		refused("is not known", "--day", "2020-01-31", "--time-zone", "Mars/Olympus")
		refused("--yes is given without --republish", "--yes")
		refused(`no event type \"order.acepted\"`, "--event", "order.acepted")
		refused(`no consumer \"sales\"`, "--consumer", "sales")
		refused("sales-report does not handle order.cancelled", "--consumer", "sales-report", "--event", "order.cancelled")
		refused("write --prometheus", "--prometheus", filepath.Join(t.TempDir(), "none", "outbox.prom"))

		server.Exec(t, "CREATE USER IF NOT EXISTS 'reconcile_looks'@'%' IDENTIFIED BY 'hunter2secret'", "GRANT SELECT ON "+server.Name+".orders TO 'reconcile_looks'@'%'")
		cfg := server.Config()
		cfg.User, cfg.Passwd = "reconcile_looks", "hunter2secret"
		_, stderr, code := runReconcile(t, cfg.FormatDSN())
		if code != 2 || !strings.Contains(stderr, "doctor --grants") || strings.Contains(stderr, "hunter2secret") {
			t.Errorf("%d\n%s", code, stderr)
		}
		// To look it needs no more than to SELECT.
		server.Exec(t, "GRANT SELECT ON "+server.Name+".* TO 'reconcile_looks'@'%'")
		if _, stderr, code := runReconcile(t, cfg.FormatDSN()); code != 0 {
			t.Errorf("%d\n%s", code, stderr)
		}
		server.Exec(t, "DROP USER 'reconcile_looks'@'%'")
	})
}

// The textfile has a line a check, and what was there before is replaced at once.
func TestReconcilePrometheus(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		name := filepath.Join(t.TempDir(), "outbox.prom")
		if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		lanesKind.placed(t, db)
		mustExec(t, db, "DELETE FROM outbox_event")
		if _, stderr, code := runReconcile(t, server.DSN, "--from", "1h", "--to", "0s", "--prometheus", name); code != 1 {
			t.Fatalf("%d\n%s", code, stderr)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`outbox_reconcile_difference{check="no-event"} 1` + "\n", `outbox_reconcile_difference{check="not-applied"} 0` + "\n", "outbox_reconcile_last_run_timestamp_seconds 1"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
		if entries, err := os.ReadDir(filepath.Dir(name)); err != nil || len(entries) != 1 {
			t.Errorf("%d files are left, %v", len(entries), err)
		}
	})
}
