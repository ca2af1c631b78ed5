package sqlgen

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outboxgen/outboxgen/internal/fileset"
	"github.com/outboxgen/outboxgen/internal/spec"
)

var update = flag.Bool("update", false, "rewrite the expected files in testdata")

const head = `version: 1
service: orders
go: { package: orderevents, out: gen/orderevents }
`

const event = `
events:
  order.accepted:
    aggregate: { type: order, id: order_id, version: order_version }
    fields: { order_id: int64, order_version: int64 }
`

const source = `    source:
      table: order
      request: [tenant_id, key]
      event_id: acceptance_event_id
      aggregate_id: id
      created_at: created_at
`

func parse(t *testing.T, text string) *spec.Model {
	t.Helper()
	m, problems := spec.Parse("events.yaml", []byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return m
}

func generate(t *testing.T, text string) Result {
	t.Helper()
	result, problems := Generate(parse(t, text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return result
}

// TestGolden compares whole files: testdata/<case>/ holds what comes out.
func TestGolden(t *testing.T) {
	cases := map[string]string{
		"plain":      head + event,
		"rows":       head + "outbox: { ordering: none }\n" + event,
		"rowsdelete": head + "outbox: { ordering: none, keep_published: none }\n" + event,
		"full": head + `outbox: { keep_published: none, table_prefix: shop_ }
sql: { schema: [schema/a.sql, more], queries: db/queries, config: db/tool/sqlc.yaml }
` + event + source,
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("testdata", name)
			result := generate(t, text)
			if *update {
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range result.Files {
				golden := filepath.Join(dir, filepath.FromSlash(f.Path))
				if *update {
					if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(golden, f.Data, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), string(f.Data)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", f.Path, diff)
				}
				if !fileset.Ours(f.Data) {
					t.Errorf("%s lacks the header", f.Path)
				}
			}
		})
	}
}

// outboxes are the settings of an outbox that change its tables and queries.
func outboxes() []string {
	return []string{
		"ordering: aggregate", "ordering: none",
		"ordering: aggregate, keep_published: none", "ordering: none, keep_published: none",
	}
}

func outbox(settings string) string { return "outbox: { " + settings + " }\n" }

// TestPrefix holds every name of ours to the prefix, those of later templates
// too.
func TestPrefix(t *testing.T) {
	for _, settings := range outboxes() {
		plain := generate(t, head+outbox(settings)+event)
		prefixed := generate(t, head+outbox(settings+", table_prefix: shop_")+event)
		for i, f := range prefixed.Files {
			text := string(f.Data)
			for _, name := range []string{
				"outbox_event", "outbox_failure", "outbox_lane", "outbox_relay", "outbox_task", "outbox_pause", "outbox_audit", "consumed_event",
				"consumer_failure", "consumer_redrive", "parked_event", "consumed_version",
			} {
				text = strings.ReplaceAll(text, "shop_"+name, name)
			}
			if diff := cmp.Diff(string(plain.Files[i].Data), text); diff != "" {
				t.Errorf("%s, %s differs by more than the prefix (-plain +prefixed):\n%s", settings, f.Path, diff)
			}
			for _, name := range []string{" outbox_", `"outbox_`, " consumed_event", " consumer_failure", " consumer_redrive", " parked_event", " consumed_version",
				"ix_outbox", "uq_consumed", "ix_consumer", "uq_parked", "ix_parked"} {
				if strings.Contains(string(f.Data), name) {
					t.Errorf("%s, %s has %q without the prefix", settings, f.Path, name)
				}
			}
		}
	}
}

// TestIdentifierLengths: MySQL's identifiers end at 64 characters.
func TestIdentifierLengths(t *testing.T) {
	prefix := "p" + strings.Repeat("x", 31) // the longest that the parser lets through
	_, problems := spec.Parse("events.yaml", []byte(head+outbox("table_prefix: "+prefix+"x")+event))
	if len(problems) != 1 {
		t.Errorf("a longer prefix: %v", problems)
	}
	for _, settings := range outboxes() {
		longest := ""
		for _, f := range generate(t, head+outbox(settings+", table_prefix: "+prefix)+event+source).Files {
			for word := range strings.FieldsFuncSeq(string(f.Data), func(r rune) bool {
				return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
			}) {
				if len(word) > len(longest) {
					longest = word
				}
			}
		}
		if !strings.Contains(longest, prefix) || len(longest) > 64 {
			t.Errorf("%s: %s has %d characters", settings, longest, len(longest))
		}
	}
}

func TestDDL(t *testing.T) {
	for settings, want := range map[string][]string{
		"ordering: none": {
			"CREATE TABLE outbox_event", "CREATE TABLE outbox_failure", "CREATE TABLE outbox_relay",
			"CREATE TABLE consumed_event", "CREATE TABLE consumer_failure", "CREATE TABLE parked_event", "CREATE TABLE consumed_version",
			"CREATE TABLE outbox_task", "CREATE TABLE consumer_redrive", "CREATE TABLE outbox_pause", "CREATE TABLE outbox_audit", "CREATE VIEW outbox_event_state",
		},
		"ordering: aggregate": {
			"CREATE TABLE outbox_event", "CREATE TABLE outbox_failure", "CREATE TABLE outbox_lane", "CREATE TABLE outbox_relay",
			"CREATE TABLE consumed_event", "CREATE TABLE consumer_failure", "CREATE TABLE parked_event", "CREATE TABLE consumed_version",
			"CREATE TABLE outbox_task", "CREATE TABLE consumer_redrive", "CREATE TABLE outbox_pause", "CREATE TABLE outbox_audit", "CREATE VIEW outbox_event_state",
		},
	} {
		var names []string
		for _, statement := range generate(t, head+outbox(settings)+event).DDL {
			if strings.Contains(statement, ";") || strings.Contains(statement, "--") {
				t.Errorf("more than a statement:\n%s", statement)
			}
			names = append(names, strings.Join(strings.Fields(statement)[:3], " "))
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", settings, diff)
		}
	}
}

// TestClock: the time is the database's and UTC in every statement, whatever
// the session's time zone is.
func TestClock(t *testing.T) {
	for _, settings := range outboxes() {
		for _, f := range generate(t, head+outbox(settings)+event+source).Files {
			text := strings.ReplaceAll(string(f.Data), now, "")
			for _, word := range []string{"NOW(", "CURRENT_TIMESTAMP", "UTC_TIMESTAMP", "SYSDATE", "TIMESTAMP "} {
				if strings.Contains(text, word) {
					t.Errorf("%s, %s has a clock of its own: %s", settings, f.Path, word)
				}
			}
		}
	}
}

// TestDeleteAtTheMark: what is not kept is deleted by MarkPublished, by primary
// key and under the same condition as an update.
func TestDeleteAtTheMark(t *testing.T) {
	for _, settings := range outboxes() {
		result := generate(t, head+outbox(settings)+event)
		var mark string
		for _, f := range result.Files {
			if strings.HasSuffix(f.Path, "/"+claimFile) {
				_, mark, _ = strings.Cut(string(f.Data), "-- name: MarkPublished :execrows\n")
				mark, _, _ = strings.Cut(mark, "-- name:")
			}
		}
		want := []string{"event_id IN (sqlc.slice(event_ids))", "status = 0", "FORCE INDEX (PRIMARY)"}
		if strings.HasPrefix(settings, "ordering: none") {
			want = append(want, "lease_owner = sqlc.arg(owner)", "lease_token = sqlc.arg(token)")
		}
		for _, part := range want {
			if !strings.Contains(mark, part) {
				t.Errorf("%s: no %s in\n%s", settings, part, mark)
			}
		}
		if deletes := strings.Contains(mark, "DELETE "); deletes != strings.Contains(settings, "keep_published: none") ||
			deletes == strings.Contains(mark, "UPDATE ") {
			t.Errorf("%s:\n%s", settings, mark)
		}
	}
}

// TestWritersKnowNoOrdering: docs/events-yaml.md says that a change of the
// ordering is none of the writers'.
func TestWritersKnowNoOrdering(t *testing.T) {
	insert := map[string]bool{}
	for _, settings := range outboxes() {
		for _, f := range generate(t, head+outbox(settings)+event).Files {
			if strings.HasSuffix(f.Path, "/"+outboxFile) {
				_, text, found := strings.Cut(string(f.Data), "-- name: InsertEvent")
				text, _, _ = strings.Cut(text, "-- name:")
				insert[text] = found
			}
		}
	}
	if len(insert) != 1 || insert[""] {
		t.Errorf("%d statements: %v", len(insert), insert)
	}
}

// TestGeneratedFilesAreNoSchema: sqlc would read our tables twice.
func TestGeneratedFilesAreNoSchema(t *testing.T) {
	for _, f := range generate(t, head+event+source).Files {
		if !strings.HasPrefix(f.Path, "queries/") {
			continue
		}
		_, problems := Generate(parse(t, head+"sql: { schema: ["+f.Path+"] }\n"+event))
		if len(problems) != 1 || !strings.Contains(problems[0].Message, "is a generated file") {
			t.Errorf("%s: %v", f.Path, problems)
		}
	}
}

func TestPaths(t *testing.T) {
	for sql, want := range map[string]string{
		`{ schema: ["db/*.sql"] }`:                   "pattern",
		`{ queries: "q[1]" }`:                        "pattern",
		`{ schema: [queries] }`:                      "folder of the generated queries",
		`{ schema: [db], queries: db }`:              "folder of the generated queries",
		`{ schema: [queries/schema.sql] }`:           "generated file",
		`{ config: sqlc.json }`:                      "not a .yaml file",
		`{ schema: [db], queries: db/queries }`:      "",
		`{ schema: [queries/mine.sql], queries: . }`: "",
	} {
		_, problems := Generate(parse(t, head+"sql: "+sql+"\n"+event))
		got := ""
		if len(problems) > 0 {
			got = problems[0].Message
			if !problems[0].Pos.IsValid() {
				t.Errorf("%s: no place", sql)
			}
		}
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, not %q", sql, got, want)
		}
	}
}
