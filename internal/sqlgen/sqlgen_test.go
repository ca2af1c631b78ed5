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
		"plain": head + event,
		"full": head + `outbox: { table_prefix: shop_ }
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

// TestPrefix holds every name of ours to the prefix, those of later templates
// too.
func TestPrefix(t *testing.T) {
	plain, prefixed := generate(t, head+event), generate(t, head+"outbox: { table_prefix: shop_ }\n"+event)
	for i, f := range prefixed.Files {
		text := string(f.Data)
		for _, name := range []string{"outbox_event", "outbox_failure", "outbox_relay", "consumed_event"} {
			text = strings.ReplaceAll(text, "shop_"+name, name)
		}
		if diff := cmp.Diff(string(plain.Files[i].Data), text); diff != "" {
			t.Errorf("%s differs by more than the prefix (-plain +prefixed):\n%s", f.Path, diff)
		}
		for _, name := range []string{" outbox_", " consumed_event", "ix_outbox", "uq_consumed"} {
			if strings.Contains(string(f.Data), name) {
				t.Errorf("%s has %q without the prefix", f.Path, name)
			}
		}
	}
}

// TestIdentifierLengths: MySQL's identifiers end at 64 characters.
func TestIdentifierLengths(t *testing.T) {
	prefix := "p" + strings.Repeat("x", 31) // the longest that the parser lets through
	for _, f := range generate(t, head+"outbox: { table_prefix: "+prefix+" }\n"+event+source).Files {
		for word := range strings.FieldsFuncSeq(string(f.Data), func(r rune) bool {
			return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
		}) {
			if len(word) > 64 {
				t.Errorf("%s has %d characters", word, len(word))
			}
		}
	}
}

func TestDDL(t *testing.T) {
	ddl := generate(t, head+event).DDL
	var names []string
	for _, statement := range ddl {
		if strings.Contains(statement, ";") || strings.Contains(statement, "--") {
			t.Errorf("more than a statement:\n%s", statement)
		}
		names = append(names, strings.Join(strings.Fields(statement)[:3], " "))
	}
	want := []string{
		"CREATE TABLE outbox_event", "CREATE TABLE outbox_failure", "CREATE TABLE outbox_relay",
		"CREATE TABLE consumed_event", "CREATE VIEW outbox_event_state",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestClock: the time is the database's and UTC in every statement, whatever
// the session's time zone is.
func TestClock(t *testing.T) {
	for _, f := range generate(t, head+event+source).Files {
		text := strings.ReplaceAll(string(f.Data), now, "")
		for _, word := range []string{"NOW(", "CURRENT_TIMESTAMP", "UTC_TIMESTAMP", "SYSDATE", "TIMESTAMP "} {
			if strings.Contains(text, word) {
				t.Errorf("%s has a clock of its own: %s", f.Path, word)
			}
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
