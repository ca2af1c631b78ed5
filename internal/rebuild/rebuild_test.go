package rebuild

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/sample"
	"github.com/outboxgen/outboxgen/internal/spec"
)

func TestCheckStatement(t *testing.T) {
	for text, want := range map[string]string{
		"-- the order\nSELECT a FROM t WHERE id = ? /* ; ? */ ;\n# end ?":          "SELECT a FROM t WHERE id = ?",
		"WITH x AS (SELECT 1) SELECT '?;''?', \"\\\"?\", `;?` FROM x WHERE id = ?": "",
		"SELECT a--1 FROM t WHERE id = ?":                                          "",
	} {
		got, why := check(text)
		if want == "" {
			want = text
		}
		if got != want || why != "" {
			t.Errorf("%q: %q, %s", text, got, why)
		}
	}
	for text, want := range map[string]string{
		"": "has no statement", "-- ? \n": "has no statement", "DELETE FROM t WHERE id = ?": "has a statement other than SELECT",
		"SELECT 1": "does not have exactly one ?", "SELECT ? + ?": "does not have exactly one ?", "SELECT '?'": "does not have exactly one ?",
		"SELECT ?; DELETE FROM t": "has more than one statement", "SELECT ' ?": "has a text, a name or a comment that does not end", "SELECT ? /*": "has a text, a name or a comment that does not end",
		"SELECT ? INTO OUTFILE 'x'": "writes somewhere: INTO", "SELECT a FROM t WHERE b = ? FOR UPDATE": "locks rows: the business row is locked already",
	} {
		if got, why := check(text); got != "" || why != want {
			t.Errorf("%q: %q, %s", text, got, why)
		}
	}
}

func example(t *testing.T) (*spec.Model, *spec.Event) {
	t.Helper()
	m, problems := spec.Load("../../events.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return m, m.Events[0]
}

func TestStatementOfTheExample(t *testing.T) {
	m, e := example(t)
	if text, problem := Statement(m, e); problem != nil || !strings.HasPrefix(text, "SELECT") {
		t.Errorf("%q, %v", text, problem)
	}
	if problems := Problems(m); len(problems) > 0 {
		t.Error(problems)
	}
}

// A file that is missing, or that a link leads out to, is a finding at its name.
func TestStatementProblems(t *testing.T) {
	m, e := example(t)
	dir := t.TempDir()
	m.File = filepath.Join(dir, "in", "events.yaml")
	if err := os.Mkdir(filepath.Join(dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "out.sql"), []byte("SELECT ?"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join("..", "out.sql"), filepath.Join(dir, "in", "link.sql")); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"none.sql": "is not there", "link.sql": "can't be read"} {
		e.Source.Rebuild.Text = file
		if problems := Problems(m); len(problems) != 1 || problems[0].Rule != "bad-rebuild" || !strings.Contains(problems[0].Message, want) || problems[0].Pos != e.Source.Rebuild.Pos {
			t.Errorf("%s: %v", file, problems)
		}
	}
}

// What doesn't fit is named by its place, and no value of it is shown.
func TestPayloadIsChecked(t *testing.T) {
	m, e := example(t)
	v := e.Newest()
	s, err := SchemaOf(m, e, v)
	if err != nil {
		t.Fatal(err)
	}
	good, _ := sample.Payload(v)
	if _, err := s.Check([]byte(good)); err != nil {
		t.Fatal(err)
	}
	const secret = "hunter2secret"
	const line = `{"sku":"a","quantity":1,"unit_price":{"amount":"1.00","currency":"EUR"}}`
	payload := func(lines, rest string) string {
		return `{"order_id":7,"order_version":3,"tenant_id":1,"lines":[` + lines + `],"total":{"amount":"1.00","currency":"EUR"},"accepted_at":"2026-11-30T00:00:00.000000Z"` + rest + `}`
	}
	id, err := s.Check([]byte(payload(line, "")))
	if err != nil || id != (Identity{"7", 3}) {
		t.Fatal(id, err)
	}
	for text, want := range map[string]string{
		secret:                                    "not JSON",
		`"` + secret + `"`:                        "the payload does not fit: type",
		payload(line, `,"`+secret+`":1`):          "the payload has a field that is not in events.yaml",
		payload(line, `,"note":null`):             "/note does not fit: type",
		payload(line+`,{"sku":"`+secret+`"}`, ""): "/lines/1/quantity is missing",
		payload(strings.Replace(line, `"EUR"`, `"`+secret+`"`, 1), ""):                        "/lines/0/unit_price/currency is no value of its enum",
		payload(strings.Replace(line, `"1.00"`, `"`+secret+`"`, 1), ""):                       "/lines/0/unit_price/amount does not fit: pattern",
		payload(strings.Replace(line, `"1.00"`, `1.00`, 1), ""):                               "/lines/0/unit_price/amount does not fit: type",
		payload(strings.Replace(line, `"sku"`, `"attributes":{"`+secret+`":5},"sku"`, 1), ""): "/lines/0/attributes/* does not fit: type",
		strings.Replace(payload(line, ""), `:7,`, `:7.0,`, 1):                                 "/order_id is not written as an integer",
		strings.Replace(payload(line, ""), `T00:`, ` 00:`, 1):                                 "/accepted_at does not fit:",
	} {
		_, err := s.Check([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
