package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/cli"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/ddl"
)

// command runs outboxgen, and returns what it wrote and its exit code.
func command(t testing.TB, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Main(t.Context(), args, &out, &errs)
	return out.String(), errs.String(), code
}

// outboxgen schema makes the tables that outboxgen schema diff finds nothing in, and
// what the latter prints repairs what was changed.
func TestSchemaDiffCommand(t *testing.T) {
	const config = "../../events.yaml"
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		t.Parallel()
		run := func(script string) {
			for _, statement := range ddl.Split(script) {
				server.Exec(t, statement.SQL)
			}
		}
		script, _, code := command(t, "schema", "-f", config)
		if code != 0 {
			t.Fatal(code)
		}
		run(script)
		diff := []string{"schema", "diff", "-f", config, "--dsn", server.DSN}
		if stdout, stderr, code := command(t, diff...); code != 0 || stdout != "" || stderr != "outboxgen: the tables are as ../../events.yaml asks for\n" {
			t.Fatalf("%d %q %q", code, stdout, stderr)
		}
		if stdout, stderr, code := command(t, append(diff, "--format", "json")...); code != 0 || strings.TrimSpace(stdout) != "[]" || stderr != "" {
			t.Errorf("%d %q %q", code, stdout, stderr)
		}

		server.Exec(t, "ALTER TABLE outbox_event DROP INDEX ix_outbox_event_claim, ADD COLUMN note INT")
		if stdout, stderr, code := command(t, append(diff, "--format", "github")...); code != 1 || strings.Count(stdout, "::error") != 2 || strings.Contains(stdout, "ALTER") || stderr != "" {
			t.Errorf("%d %q %q", code, stdout, stderr)
		}
		stdout, stderr, code := command(t, diff...)
		if code != 1 || !strings.Contains(stdout, "ALTER TABLE outbox_event\n  ADD KEY ix_outbox_event_claim") ||
			!strings.Contains(stderr, "outbox_event: the index ix_outbox_event_claim is missing [missing-key]\n") {
			t.Errorf("%d\n%s%s", code, stdout, stderr)
		}

		dir := t.TempDir()
		written, _, code := command(t, append(diff, "--for", "goose", "--out", dir, "--version", "00007")...)
		name := filepath.Join(dir, "00007_outbox_upgrade.sql")
		if code != 1 || written != "outboxgen: wrote "+name+"\n" {
			t.Errorf("%d %q", code, written)
		}
		if text, err := os.ReadFile(name); err != nil || string(text) != "-- +goose Up\n"+stdout {
			t.Errorf("%v\n%s", err, text)
		}
		run(stdout)

		// What is left is held back: a migration of comments is not written.
		written, stderr, code = command(t, append(diff, "--for", "goose", "--out", dir)...)
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || code != 1 || written != "" || !strings.Contains(stderr, "[extra-column]") {
			t.Errorf("%d %q %q %v %v", code, written, stderr, entries, err)
		}
		stdout, _, _ = command(t, append(diff, "--drop")...)
		run(stdout)
		if _, stderr, code := command(t, diff...); code != 0 {
			t.Errorf("%d %s", code, stderr)
		}
	})
}

// No password and no DSN is printed, whatever goes wrong; the environment will do.
func TestSchemaDiffKeepsThePassword(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		const secret = "hunter2secret"
		wrong := server.Config()
		wrong.User, wrong.Passwd = "nobody_here", secret
		away := wrong.Clone()
		away.Addr = "127.0.0.1:1"
		nowhere := wrong.Clone()
		nowhere.DBName = ""
		for name, dsn := range map[string]string{
			"refused": wrong.FormatDSN(), "away": away.FormatDSN(), "no database": nowhere.FormatDSN(),
			"no DSN at all": "mysql://root:" + secret + "@localhost/orders", "a bad parameter": "root:" + secret + "@tcp(127.0.0.1:1)/orders?timeout=" + secret,
			"bad TLS": "root:" + secret + "@tcp(127.0.0.1:1)/orders?tls=" + secret,
		} {
			t.Setenv("OUTBOXGEN_DSN", dsn)
			for _, format := range []string{"text", "json"} {
				stdout, stderr, code := command(t, "schema", "diff", "-f", "../../events.yaml", "--format", format, "-v")
				if code != 2 || strings.Contains(stdout+stderr, secret) || stdout+stderr == "" {
					t.Errorf("%s: %d\n%s%s", name, code, stdout, stderr)
				}
			}
		}
		t.Setenv("OUTBOXGEN_DSN", server.DSN)
		if stdout, _, code := command(t, "schema", "diff", "-f", "../../events.yaml"); code != 1 || !strings.Contains(stdout, "CREATE TABLE outbox_event (") {
			t.Errorf("by the environment: %d\n%s", code, stdout)
		}
	})
}
