package integration

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/privileges"
)

// outboxgen doctor finds nothing in the example's tables but that no relay runs, says what it has
// looked at, and ends as the heaviest finding has it.
func TestDoctorCommand(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		server.Exec(t, lanesKind.schema()...)
		doctor := func(more ...string) (string, string, int) {
			return command(t, append([]string{"doctor", "-f", "../../events.yaml", "--dsn", server.DSN, "--service-dsn", server.DSN}, more...)...)
		}
		stdout, stderr, code := doctor()
		if code != 0 || stderr != "note: no relay is alive, and nothing is due [no-relay]\n    hint: start a relay before events are written\noutboxgen explain no-relay tells more\n" ||
			!strings.HasPrefix(stdout, "outboxgen: "+server.Flavor.String()+" ") || !strings.Contains(stdout, "0 errors, 0 warnings, 1 note; looked at the server's version, ") || strings.Contains(stdout, "not at") {
			t.Errorf("%d %s%s", code, stdout, stderr)
		}
		stdout, stderr, code = doctor("--format", "json")
		var list []struct{ Severity, Rule, Message, Hint string }
		if err := json.Unmarshal([]byte(stdout), &list); err != nil || code != 0 || stderr != "" || len(list) != 2 || list[1].Rule != "looked-at" || list[0].Severity != "note" {
			t.Errorf("%d %v %s%s", code, err, stdout, stderr)
		}
		server.Exec(t, "ALTER TABLE consumer_failure DROP COLUMN reason", "ALTER TABLE outbox_audit ADD COLUMN note INT")
		stdout, stderr, code = doctor("--format", "github")
		if code != 1 || stderr != "" || !strings.HasPrefix(stdout, "::error title=missing-column::") || !strings.Contains(stdout, "\n::warning title=extra-column::") || !strings.Contains(stdout, "\n::notice title=looked-at::") {
			t.Errorf("%d %s%s", code, stdout, stderr)
		}
		if _, stderr, code = doctor("--role", "relais"); code != 2 || !strings.Contains(stderr, `did you mean "relay"?`) {
			t.Errorf("%d %s", code, stderr)
		}
		if _, stderr, code = doctor("--user", "me"); code != 2 || !strings.Contains(stderr, "--user is for --grants") {
			t.Errorf("%d %s", code, stderr)
		}
		if _, stderr, code = doctor("--consumer-dsn", "nobody="+server.DSN); code != 2 || !strings.Contains(stderr, `no consumer "nobody"`) {
			t.Errorf("%d %s", code, stderr)
		}
	})
}

// No password is printed, whatever goes wrong; the environment will do for both DSNs.
func TestDoctorKeepsThePassword(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		const secret = "hunter2secret"
		server.Exec(t, lanesKind.schema()...)
		wrong := server.Config()
		wrong.User, wrong.Passwd = "nobody_here", secret
		for outbox, want := range map[string]int{wrong.FormatDSN(): 2, "root:" + secret + "@tcp(127.0.0.1:1)/orders": 2, server.DSN: 1} {
			t.Setenv("OUTBOXGEN_DSN", outbox)
			t.Setenv("OUTBOXGEN_SERVICE_DSN", "orders:"+secret+"@tcp(db:3306)/orders")
			for _, format := range []string{"text", "json"} {
				stdout, stderr, code := command(t, "doctor", "-f", "../../events.yaml", "--format", format, "-v")
				if code != want || strings.Contains(stdout+stderr, secret) || want == 1 && !strings.Contains(stdout+stderr, "dsn-refused") {
					t.Errorf("%d\n%s%s", code, stdout, stderr)
				}
			}
		}
	})
}

// Without a database the grants are for both servers, for a user each of the parts.
func TestDoctorGrants(t *testing.T) {
	t.Setenv("OUTBOXGEN_DSN", "")
	stdout, stderr, code := command(t, "doctor", "-f", "../../events.yaml", "--grants")
	if code != 0 || stderr != "" {
		t.Fatalf("%d %s", code, stderr)
	}
	for _, want := range []string{
		"-- CREATE USER 'orders_relay'@'%' IDENTIFIED BY '<password>';\n", "-- consumer sales-report: ", "'orders_notification_planner'@'%'",
		"UPDATE (`event_id`, `kind`, `reason`, `failed_at`) ON `outbox_failure` TO 'orders_relay'@'%';\n",
		"SELECT (`kind`, `reason`, `failed_at`), INSERT (", "GRANT SELECT (`acceptance_event_id`, `created_at`, `id`, `request_id`, `tenant_id`) ON `orders` TO 'orders_writer'@'%';",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	for _, role := range privileges.Roles() {
		if !strings.Contains(stdout, "\n-- "+string(role)) {
			t.Errorf("no grants of a %s", role)
		}
	}
	stdout, _, _ = command(t, "doctor", "-f", "../../events.yaml", "--grants", "--role", "relay", "--user", "o'brien", "--host", "10.0.%")
	if !strings.Contains(stdout, "TO 'o''brien'@'10.0.%';") || strings.Contains(stdout, "orders_") {
		t.Error(stdout)
	}
	if _, stderr, code := command(t, "doctor", "-f", "../../events.yaml", "--grants", "--user", "x"); code != 2 || !strings.Contains(stderr, "--role") {
		t.Errorf("%d %s", code, stderr)
	}
}
