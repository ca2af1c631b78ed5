package gogen

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
)

// hostileStrings are code in the languages that texts of events.yaml end up in, and
// ways out of where they stand there.
func hostileStrings() []string {
	return append(hostileDocs(),
		"'; DROP TABLE outbox_event; --",
		"x`; DROP TABLE outbox_event; -- `",
		"x\"; DROP TABLE outbox_event; --",
		"\"` + func() string { panic(0) }() + `",
		"x\" json:\"y", "x`y", "../../etc", "/etc/passwd", "a/../../b", "C:\\x", "~/x", "a\x00b",
		"${HOME}", "{{.}}", "$(id)", "<script>", "type", "nil", "init", "main", "_", "", " ", "Ünïcode", "x.y", "x-y", "A", "9", "-1",
	)
}

// FuzzGenerate: what is generated of a file that is taken holds what it should, and
// nothing else. Generate looks at its own output for that.
func FuzzGenerate(f *testing.F) {
	files, err := filepath.Glob("../spec/testdata/good/*/events.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range append(files, "testdata/reserved.yaml", "testdata/example/events.yaml") {
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) { generateHostile(t, src) })
}

// FuzzDoc: a text that may stand in a doc can't become code.
func FuzzDoc(f *testing.F) {
	for _, s := range hostileStrings() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		var file yaml.Node
		if err := yaml.Unmarshal([]byte(read(t, "testdata/example/events.yaml")), &file); err != nil {
			t.Fatal(err)
		}
		scalars(&file, func(key string, n *yaml.Node) {
			if key == "doc" || key == "deprecated" {
				n.SetString(doc)
			}
		})
		src, err := yaml.Marshal(&file)
		if err != nil {
			return // not a text that YAML can hold
		}
		generateHostile(t, src)
	})
}

// TestHostileStrings puts some of them in the place of every text of two files, others
// for each. They are refused, or do no harm.
func TestHostileStrings(t *testing.T) {
	taken, refused, next, strs := 0, 0, 0, hostileStrings()
	for _, name := range []string{"testdata/example/events.yaml", "../spec/testdata/good/every-shape/events.yaml"} {
		var file yaml.Node
		if err := yaml.Unmarshal([]byte(read(t, name)), &file); err != nil {
			t.Fatal(err)
		}
		scalars(&file, func(_ string, n *yaml.Node) {
			before := *n
			for range 6 {
				n.SetString(strs[next%len(strs)])
				next++
				src, err := yaml.Marshal(&file)
				if err != nil {
					continue
				}
				if generateHostile(t, src) {
					taken++
				} else {
					refused++
				}
			}
			*n = before
		})
	}
	t.Logf("%d taken, %d refused", taken, refused)
	if taken < 50 || refused < 500 {
		t.Errorf("%d taken, %d refused: hardly any", taken, refused)
	}
}

// scalars visits every text of a file, keys too; key is that of a mapping's value.
func scalars(n *yaml.Node, visit func(key string, n *yaml.Node)) {
	if n.Kind == yaml.ScalarNode {
		visit("", n)
	}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 && child.Kind == yaml.ScalarNode {
			visit(n.Content[i-1].Value, child)
			continue
		}
		scalars(child, visit)
	}
}

var plainSQL = regexp.MustCompile(`^[\x20-\x7e\n]*$`)

// generateHostile reports whether the file was taken.
func generateHostile(t *testing.T, src []byte) bool {
	model, problems := spec.Parse("events.yaml", src)
	if model == nil {
		for _, p := range problems {
			if p.Message == "" || p.Pos.Line == 0 {
				t.Errorf("no clear error: %+v", p)
			}
		}
		return false
	}
	sql, problems := sqlgen.Generate(model)
	if len(problems) > 0 {
		return false
	}
	for _, statement := range sql.DDL {
		if !plainSQL.MatchString(statement) || strings.Contains(statement, ";") || strings.Contains(statement, "--") {
			t.Errorf("a text of the file ends a statement:\n%s", statement)
		}
	}
	for _, e := range model.Events {
		e.Source = nil // its query would have to be compiled
	}
	_, problems = Generate(Input{Model: model, ModulePath: testModule, DB: sqlcFiles(t, project(t, model)), DDL: sql.DDL})
	for _, p := range problems {
		if p.Rule == "broken-output" {
			t.Errorf("%s\n%s", p.Message, src)
		}
	}
	return len(problems) == 0
}
