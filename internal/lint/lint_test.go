package lint_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/lint"
	"github.com/outboxgen/outboxgen/internal/rules"
	"github.com/outboxgen/outboxgen/internal/spec"
)

var update = flag.Bool("update", false, "rewrite the expected output of the golden cases")

// A folder a rule: what it reports, what it leaves alone, and what lint.ignore silences.
func TestRules(t *testing.T) {
	for _, rule := range rules.IDs(rules.KindLint) {
		t.Run(rule, func(t *testing.T) {
			found := checkCase(t, filepath.Join("testdata", rule))
			for _, d := range found {
				if d.Severity != diag.SeverityWarning {
					t.Errorf("%s is no warning", d.Rule)
				}
				if d.Rule != rule {
					t.Errorf("the case of %s has a finding of %s at %s", rule, d.Rule, d.Pos)
				}
			}
			if len(found) == 0 {
				t.Error("the case has no finding")
			}
		})
	}
}

// Every folder is a rule's.
func TestFoldersAreRules(t *testing.T) {
	dirs, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if r, ok := rules.Find(filepath.Base(dir)); !ok || r.Kind != rules.KindLint {
			t.Errorf("%s is named after no rule of lint", dir)
		}
	}
}

func checkCase(t *testing.T, dir string) diag.List {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(dir, "events.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := lint.Check(parse(t, src))
	var b bytes.Buffer
	if err := diag.Text(&b, found); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join(dir, "stderr.txt")
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", golden, diff)
	}
	return found
}

func parse(t *testing.T, src []byte) *spec.Model {
	t.Helper()
	m, problems := spec.Parse("events.yaml", src)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return m
}

// The project follows its own advice.
func TestOwnEvents(t *testing.T) {
	src, err := os.ReadFile("../../events.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range lint.Check(parse(t, src)) {
		t.Errorf("%s: %s [%s]", d.Pos, d.Message, d.Rule)
	}
}

// lint.ignore silences each rule, by all and by the name of what it is about.
func TestIgnoreAll(t *testing.T) {
	for _, rule := range rules.IDs(rules.KindLint) {
		src, err := os.ReadFile(filepath.Join("testdata", rule, "events.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(string(src), "\nlint:")
		text += "\nlint: { ignore: { " + rule + ": all } }\n"
		if found := lint.Check(parse(t, []byte(text))); len(found) > 0 {
			t.Errorf("%s: all is ignored, and there is %v", rule, found)
		}
	}
}

// A name covers what has it and what stands in that, not what begins alike.
func TestIgnoreIsExact(t *testing.T) {
	found := lint.Check(parse(t, []byte(`version: 1
service: s
go: { package: ev, out: gen/ev }
broker: { retention: 168h }
events:
  a.b:
    aggregate: { type: a, id: id, version: ver }
    fields: { id: int64, ver: int64 }
  a.b.c:
    aggregate: { type: a, id: id, version: ver }
    fields: { id: int64, ver: int64, data: bytes }
consumers:
  c: { handles: [a.b, a.b.c] }
  c.x: { handles: [a.b] }
lint:
  ignore:
    event-not-past: all
    doc-missing: [a.b, c]
    field-name-vague: a.b.c
`)))
	var about []string
	for _, d := range found {
		about = append(about, d.Message)
	}
	want := []string{`the event "a.b.c" has no doc`, `the consumer "c.x" has no doc`}
	if diff := cmp.Diff(want, about); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// docs/lint.md has a line for each rule, and for no other.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/lint.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	if diff := cmp.Diff(rules.IDs(rules.KindLint), listed); diff != "" {
		t.Errorf("docs/lint.md lists other rules than there are (-rules +docs):\n%s", diff)
	}
}
