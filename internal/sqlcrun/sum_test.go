package sqlcrun

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/outboxgen/outboxgen/internal/fileset"
)

// TestUnchanged: the output of the last run is taken only while every byte
// that reached sqlc or came from it is the same.
func TestUnchanged(t *testing.T) {
	in, _ := input(t, "write")
	dir := in.Root.Name()
	out, _, err := Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	db, sum := filepath.Join(dir, "gen/internal/outboxdb/db.go"), filepath.Join(dir, "gen/internal/outboxdb/outboxgen.sum")
	mine := filepath.Join(dir, "mine.sql")
	change := func(name string, edit func([]byte) []byte) func(*testing.T, *Input) {
		return func(t *testing.T, _ *Input) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, edit(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	space := func(data []byte) []byte { return append(data, ' ') }
	remove := func(name string) func(*testing.T, *Input) {
		return func(t *testing.T, _ *Input) {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tt := range map[string]struct {
		change func(*testing.T, *Input)
		runs   bool
	}{
		"nothing":           {func(*testing.T, *Input) {}, false},
		"asked to":          {func(_ *testing.T, in *Input) { in.Force = true }, true},
		"output edited":     {change(db, space), true},
		"output missing":    {remove(db), true},
		"sum missing":       {remove(sum), true},
		"sum edited":        {change(sum, space), true},
		"sum without lines": {change(sum, func(d []byte) []byte { return regexp.MustCompile(`(?m)^output.*\n`).ReplaceAll(d, nil) }), true},
		"sum leads out": {change(sum, func(d []byte) []byte {
			return regexp.MustCompile(`db\.go`).ReplaceAll(d, []byte("../../../mine.sql"))
		}), true},
		"their table": {change(mine, space), true},
		"our query": {func(_ *testing.T, in *Input) {
			in.SQL.Files = slices.Clone(in.SQL.Files)
			in.SQL.Files[0].Data = []byte("SELECT 2;\n")
		}, true},
		"a query's path": {func(_ *testing.T, in *Input) {
			in.SQL.Files = slices.Clone(in.SQL.Files)
			in.SQL.Files[0].Path = "queries/outbox2.sql"
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range out.Files {
				name := filepath.Join(dir, filepath.FromSlash(f.Path))
				if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, f.Data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(mine, []byte("CREATE TABLE mine (id INT);\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			in := in
			tt.change(t, &in)
			ran := false
			in.Log = func(event string) { ran = len(event) > 9 && event[:9] == "sqlc run:" }
			again, problems, err := Run(t.Context(), in)
			if err != nil || len(problems) > 0 {
				t.Fatal(problems, err)
			}
			if ran != tt.runs {
				t.Errorf("sqlc ran: %v", ran)
			}
			if string(again.DB["db.go"]) != string(out.DB["db.go"]) || len(again.Files) != len(out.Files) {
				t.Errorf("the output is another")
			}
		})
	}
}

// TestInputSum: two inputs never look like one.
func TestInputSum(t *testing.T) {
	file := func(path, data string) fileset.File { return fileset.File{Path: path, Data: []byte(data)} }
	seen := map[string]int{}
	for i, in := range []struct {
		files  []fileset.File
		schema []schemaFile
	}{
		{},
		{files: []fileset.File{file("a", "b")}},
		{files: []fileset.File{file("ab", "")}},
		{files: []fileset.File{file("a", "b"), file("c", "")}},
		{files: []fileset.File{file("a", ""), file("b", "c")}},
		{schema: []schemaFile{{"a", []byte("b")}}},
		{schema: []schemaFile{{"a", nil}, {"b", nil}}},
		{schema: []schemaFile{{"b", nil}, {"a", nil}}}, // sqlc reads them in this order
	} {
		sum := inputSum(in.files, in.schema)
		if j, twice := seen[sum]; twice {
			t.Errorf("inputs %d and %d are the same", j, i)
		}
		seen[sum] = i
	}
	a, b := file("a", "1"), file("b", "2")
	if inputSum([]fileset.File{a, b}, nil) != inputSum([]fileset.File{b, a}, nil) {
		t.Error("the order of our own files matters")
	}
}

// TestSQLCVersion: the fallback is the version that go.mod asks for.
func TestSQLCVersion(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(sqlcModule) + ` (\S+)`).FindSubmatch(mod)
	if m == nil || string(m[1]) != sqlcVersion {
		t.Errorf("go.mod has %s, the constant is %s", m, sqlcVersion)
	}
	if got := linkedSQLC(); got != sqlcVersion {
		t.Errorf("the linked version is %s", got)
	}
}
