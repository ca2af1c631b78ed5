package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/example/schema"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/ddl"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// prefixed writes an events.yaml with a table_prefix, and returns its path.
func prefixed(t testing.TB, ordering string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "events.yaml")
	text := `version: 1
service: carts
go: { package: cartevents, out: gen }
outbox: { ordering: ` + ordering + `, table_prefix: shop_ }
events:
  cart.paid:
    aggregate: { type: cart, id: cart_id, version: cart_version }
    fields: { cart_id: int64, cart_version: int64 }
consumers:
  till: { handles: [cart.paid] }
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// schema makes the tables that the config asks for.
func (a asking) schema(server dbtest.Database) {
	a.t.Helper()
	script, stderr, code := command(a.t, "schema", "-f", a.config)
	if code != 0 {
		a.t.Fatal(code, stderr)
	}
	for _, statement := range ddl.Split(script) {
		server.Exec(a.t, statement.SQL)
	}
}

// looking are the commands that look.
func looking() [][]string {
	id := outbox.NewEventID().String()
	return [][]string{
		{"status"}, {"show", id}, {"find"}, {"find", "--aggregate", "order/1"}, {"consumed", salesReport, id}, {"dead", "list"}, {"dead", "show", id},
		{"parked", "list"}, {"parked", "show", salesReport, id}, {"audit"},
	}
}

// A database without the tables, or with those of an older layout, is an error that says how to go on.
func TestLookWithoutTables(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		t.Parallel()
		ask := asks(t, lanesKind, server)
		for _, line := range looking() {
			ask.want(2, []string{"outboxgen schema diff"}, line...)
		}
		server.Exec(t, lanesKind.schema()...)
		server.Exec(t, "DROP TABLE outbox_pause")
		ask.want(2, []string{"outbox_pause", "outboxgen schema diff"}, "status")
		server.Exec(t, "DROP TABLE outbox_audit", "DROP TABLE consumer_redrive")
		ask.want(2, []string{"outbox_audit", "outboxgen schema diff"}, "audit")
		ask.want(2, []string{"consumer_redrive", "outboxgen schema diff"}, "parked", "list")
		server.Exec(t, "ALTER TABLE outbox_event DROP INDEX ix_outbox_event_claim")
		ask.want(2, []string{"ix_outbox_event_claim", "outboxgen schema diff"}, "status")
		server.Exec(t, "ALTER TABLE consumed_event DROP COLUMN outcome")
		ask.want(2, []string{"outcome", "outboxgen schema diff"}, "consumed", salesReport, outbox.NewEventID().String())
	})
}

// A right that is missing is named, and so is the command that prints it.
func TestLookWithoutRights(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, _ *outbox.DB) {
		user := server.Name + "_l"
		user = user[len(user)-20:]
		server.Exec(t, "CREATE USER "+user+"@'%' IDENTIFIED BY 'secret-1'", "GRANT SELECT ON "+server.Name+".orders TO "+user+"@'%'")
		t.Cleanup(func() { server.Exec(t, "DROP USER "+user+"@'%'") })
		ask := asks(t, lanesKind, server)
		ask.dsn = via(t, server, "", func(c *mysql.Config) { c.User, c.Passwd = user, "secret-1" })
		for _, line := range looking() {
			ask.want(2, []string{"SELECT command denied", "outboxgen doctor --grants"}, line...)
		}
		text, code := ask.run("status", "--watch", "1s")
		if code != 2 || strings.Contains(text, "secret-1") {
			t.Errorf("%d %s", code, text)
		}
		ask.dsn = via(t, server, "", func(c *mysql.Config) { c.User, c.Passwd = user, "secret-2" })
		ask.want(2, []string{"the server refuses this user"}, "status")
		ask.want(2, []string{"--watch 10ms is too often"}, "status", "--watch", "10ms")
	})
}

// The rights that doctor prints for people who look, and who mend, are enough to look.
func TestLookUnderLeastPrivileges(t *testing.T) {
	for _, role := range []string{"reader", "operator"} {
		t.Run(role, func(t *testing.T) {
			eachKind(t, kinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
				if k.name == lanesKind.name {
					server.Exec(t, schema.Statements()...)
				}
				dead := k.bury(t, db, 1, 1)[0].String()
				ask := asks(t, k, as(t, server, k.config(), role))
				lines := [][]string{{"status"}, {"show", dead}, {"find"}, {"find", "--aggregate", "order/1"}, {"dead", "list"}, {"dead", "show", dead}, {"parked", "list"}, {"audit"}}
				if k.name == lanesKind.name {
					lines = append(lines, []string{"consumed", "notification-planner", dead}, []string{"parked", "show", salesReport, dead}, []string{"find", "--request", "7,r-1"})
				}
				for _, line := range lines {
					if text, code := ask.run(line...); code == 2 {
						t.Errorf("outboxgen %s: %s", strings.Join(line, " "), text)
					}
				}
			})
		})
	}
}
