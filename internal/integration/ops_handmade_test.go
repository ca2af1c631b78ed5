package integration

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// lax is a database that takes what strict mode refuses: dates of zeros.
func lax(t testing.TB, server dbtest.Database) *outbox.DB {
	return open(t, via(t, server, "", func(c *mysql.Config) { c.Params = map[string]string{"sql_mode": "''"} }))
}

func execAll(t testing.TB, db *outbox.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%v: %s", err, statement)
		}
	}
}

// walk goes through a list page by page and returns how many it has.
func (a asking) walk(flag string, args ...string) (n int) {
	a.t.Helper()
	for next := ""; ; {
		more := args
		if next != "" {
			more = append(append([]string{}, args...), flag, next)
		}
		var page ops.Page[json.RawMessage]
		a.data(&page, more...)
		n += len(page.Items)
		if next = page.Next; next == "" || n > 1000 {
			return n
		}
	}
}

// orderRows is what reconcile needs of the example's own tables.
const orderRows = "CREATE TABLE orders (id BIGINT PRIMARY KEY, acceptance_event_id CHAR(36) NOT NULL, created_at DATETIME(6) NOT NULL)"

// Rows written by hand, with ids that are none and dates of zeros, hide nothing else and keep no
// command from its work.
func TestRowsWrittenByHandStopNoCommand(t *testing.T) {
	eachKind(t, []kind{lanesKind, rowsKind}, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		server.Exec(t, orderRows)
		ask, consumer := asks(t, k, server), salesReport
		if k.name == rowsKind.name {
			consumer = "order-state"
		}
		dead := k.bury(t, db, 100, 5)
		published := k.writeEvents(t, db, 1, 1)[0].String()
		execAll(t, lax(t, server),
			"UPDATE outbox_event SET status = 2, published_at = 0, created_at = 0 WHERE event_id = '"+published+"'",
			"INSERT INTO consumed_event (consumer_name, event_id, outcome, consumed_at) VALUES ('"+consumer+"', '"+published+"', 1, 0)",
			"INSERT INTO outbox_pause (target, operator, reason, paused_at) VALUES ('claims', 'x', 'y', 0)")
		for _, id := range []string{"", "not-an-id", "zzz", "\x1b[31m", strings.ToUpper(dead[0].String())} {
			execAll(t, lax(t, server),
				`INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, event_version, schema_version, payload, headers, created_at, status, available_at)
VALUES ('`+id+`', 'order', '1', 'order.accepted', 1, 99, '{}', '{}', 0, 3, 0)`,
				`INSERT INTO parked_event (consumer_name, event_id, event_type, kind, reason, attempts, attributes, headers, body, parked_at)
VALUES ('`+consumer+`', '`+id+`', 'order.accepted', 'x', 'x', 1, '[1]', '3', '', 0)`)
		}
		for i := range 3 {
			execAll(t, db, `INSERT INTO parked_event (consumer_name, event_id, event_type, kind, reason, attempts, attributes, headers, body, parked_at)
VALUES ('`+consumer+`', '`+dead[i].String()+`', 'order.accepted', 'x', 'x', 1, '{}', '{}', '', UTC_TIMESTAMP(6))`)
		}
		for n, args := range map[int][]string{5: {"dead", "list", "--limit", "2"}, 3: {"parked", "list", consumer, "--limit", "2"}} {
			if got := ask.walk("--cursor", args...); got != n {
				t.Errorf("%s walks through %d, want %d", strings.Join(args, " "), got, n)
			}
		}
		for n, args := range map[int][]string{6: {"find", "--limit", "2"}, 5: {"find", "--limit", "2", "--status", "dead"}} {
			if got := ask.walk("--before", args...); got != n {
				t.Errorf("%s walks through %d, want %d", strings.Join(args, " "), got, n)
			}
		}
		ask.want(0, []string{"CLAIMS ARE PAUSED by x"}, "status")
		ask.want(1, []string{"claims are paused by x"}, "doctor") // and no escape of an id, as all that ask looks at
		ask.want(0, []string{"paused already: by x"}, "pause", "--reason", "again")
		ask.want(0, []string{"claims go on"}, "resume")
		ask.want(0, []string{"1 event would be"}, "parked", "redrive", consumer, "--force", "--reason", "x", published)
		if text, code := ask.run("reconcile", "--from", "1h", "--to", "1ms"); code == 2 {
			t.Errorf("reconcile could not run: %s", text)
		}
	})
}

// A page of the audit ends anywhere, among rows of one moment too, and a consumer's database that
// is the outbox's is looked into once.
func TestTheAuditIsWalkedThroughWhole(t *testing.T) {
	eachDB(t, lanesKind, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		lanesKind.bury(t, db, 1, 120)
		s := operations(t, lanesKind, server)
		plan, err := s.PlanDead(t.Context(), ops.Selection{All: true, After: time.Now().Add(-time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.RedriveDead(t.Context(), plan, ops.Pace{}); err != nil {
			t.Fatal(err)
		}
		ask := asks(t, lanesKind, server)
		if n := ask.walk("--cursor", "audit", "--limit", "50"); n != 120 {
			t.Errorf("%d rows of the audit are shown, want 120", n)
		}
		ask.want(0, []string{"selected: after 20"}, "audit", "--limit", "1")

		ask.more = []string{"--consumer-dsn", "sales-report=" + server.DSN, "--consumer-dsn", "notification-planner=" + server.DSN}
		if n := ask.walk("--cursor", "audit", "--limit", "50"); n != 120 {
			t.Errorf("%d rows of the audit are shown where consumers are named, want 120", n)
		}
	})
}

// What a program reads on stdout is one document, and a list is never null.
func TestAnswersForProgramsAreOneDocument(t *testing.T) {
	eachDB(t, lanesKind, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		server.Exec(t, orderRows)
		ask := asks(t, lanesKind, server)
		id := outbox.NewEventID().String()
		for _, args := range [][]string{
			{"dead", "redrive", "--all"},
			{"dead", "redrive", "--all", "--yes"},
			{"parked", "discard", "sales-report", "--all", "--yes", "--reason", "x"},
			{"parked", "redrive", "sales-report", id, "--force", "--yes", "--reason", "x"},
		} {
			stdout, _, _ := command(t, append(args, "-f", ask.config, "--dsn", ask.dsn, "--format", "json")...)
			var got struct{ Results []ops.Result }
			if err := json.Unmarshal([]byte(stdout), &got); err != nil || got.Results == nil {
				t.Errorf("outboxgen %s: %v\n%s", strings.Join(args, " "), err, stdout)
			}
		}

		// A file that can't be written costs nobody the comparison.
		var got map[string]any
		stdout, _, code := command(t, "reconcile", "--prometheus", filepath.Join(t.TempDir(), "none", "x.prom"), "-f", ask.config, "--dsn", ask.dsn, "--format", "json")
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 2 || got["counts"] == nil {
			t.Errorf("exit code %d, %v:\n%s", code, err, stdout)
		}

		lanesKind.bury(t, db, 1, 3)
		server.Exec(t, "DROP TABLE outbox_audit")
		stdout, stderr, code := command(t, "dead", "redrive", "--all", "--yes", "-f", ask.config, "--dsn", ask.dsn, "--format", "json")
		got = nil
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 2 || !strings.Contains(stderr, "outbox_audit") {
			t.Errorf("exit code %d, %v:\n%s\n%s", code, err, stdout, stderr)
		}
	})
}

// A selection is what somebody wrote, and no more.
func TestSelectionsThatAreRefused(t *testing.T) {
	t.Setenv("OUTBOXGEN_DSN", "root@tcp(127.0.0.1:1)/none")
	id := outbox.NewEventID().String()
	for want, all := range map[string][][]string{
		"is empty": {
			{"dead", "redrive", "--all", "--type", ""}, {"dead", "discard", "--all", "--before", "", "--reason", "x", "--yes"}, {"parked", "redrive", "sales-report", "--all", "--aggregate", ""},
			{"parked", "discard", "sales-report", "--all", "--kind", "", "--reason", "x"}, {"dead", "list", "--cursor", ""}, {"parked", "list", "--after", ""}, {"audit", "--operator", ""},
		},
		"both event ids and conditions are given": {{"dead", "redrive", id, "--limit", "1"}, {"dead", "discard", id, "--type", "order.accepted", "--reason", "x"}, {"parked", "redrive", "sales-report", id, "--kind", "x"}},
		"is neither a time nor a duration":        {{"dead", "redrive", "--all", "--before", "0001-01-01T00:00:00Z"}},
		"--reason is missing":                     {{"dead", "discard", "--all", "--reason", "  "}, {"parked", "discard", "sales-report", "--all", "--reason", "\t"}, {"pause", "--reason", " "}, {"parked", "redrive", "sales-report", id, "--force", "--reason", " "}},
		"--reason is for --force":                 {{"parked", "redrive", "sales-report", "--all", "--reason", "x"}},
	} {
		for _, args := range all {
			_, stderr, code := command(t, append(args, "-f", lanesKind.config())...)
			if code != 2 || !strings.Contains(stderr, want) {
				t.Errorf("outboxgen %s: exit code %d, want 2 and %q:\n%s", strings.Join(args, " "), code, want, stderr)
			}
		}
	}
}

// Somebody redrives, somebody else discards: who waits is told.
func TestARedriveThatWasDiscardedMeanwhile(t *testing.T) {
	eachDB(t, lanesKind, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		id := outbox.NewEventID().String()
		execAll(t, db, "INSERT INTO consumed_event (consumer_name, event_id, outcome, consumed_at) VALUES ('sales-report', '"+id+"', 4, UTC_TIMESTAMP(6))",
			`INSERT INTO parked_event (consumer_name, event_id, event_type, kind, reason, attempts, attributes, headers, body, parked_at)
VALUES ('sales-report', '`+id+`', 'order.accepted', 'x', 'x', 1, '{}', '{}', '', UTC_TIMESTAMP(6))`)
		s := operations(t, lanesKind, server)
		plan, err := s.PlanParked(t.Context(), salesReport, ops.Selection{All: true})
		if err != nil || len(plan.Events) != 1 {
			t.Fatalf("%+v, %v", plan, err)
		}
		if results, err := s.RedriveParked(t.Context(), plan, ops.Pace{}); err != nil || doneOf(results) != 1 {
			t.Fatalf("%+v, %v", results, err)
		}
		if results, err := s.DiscardParked(t.Context(), plan, "too old", ops.Pace{}); err != nil || doneOf(results) != 1 {
			t.Fatalf("%+v, %v", results, err)
		}
		results, waiting, err := s.RedriveResults(t.Context(), salesReport, []uuid.UUID{uuid.MustParse(id)}, 0)
		if err != nil || waiting != 0 || len(results) != 1 || results[0].Done || !strings.Contains(results[0].Note, "discarded meanwhile: too old") {
			t.Errorf("%+v, %d waiting, %v", results, waiting, err)
		}
	})
}

// An error that somebody meets in the middle of a change says what to do.
func TestHintsOfOperations(t *testing.T) {
	eachDB(t, lanesKind, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		lanesKind.bury(t, db, 1, 1)
		ask := asks(t, lanesKind, server)
		ask.want(2, []string{"nothing there is equal to it"}, "dead", "list", "--kind", "\U0001F600")

		proxy := mysqlproxy.Start(t, server.Addr)
		proxy.AtCommit(mysqlproxy.CutReply, mysqlproxy.Has("UPDATE outbox_event"))
		ask.dsn = via(t, server, proxy.Addr(), nil)
		ask.want(2, []string{"the reply to COMMIT was lost", "outboxgen audit says whether they were"}, "dead", "redrive", "--all", "--yes")
		ask.want(0, []string{"dead.redrive"}, "audit")
	})
}
