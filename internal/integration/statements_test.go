package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/outboxgen/outboxgen/example/schema"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	lanesdelete "github.com/outboxgen/outboxgen/internal/variants/lanesdelete/gen/orderevents"
	rows "github.com/outboxgen/outboxgen/internal/variants/rows/gen/orderevents"
	rowsdelete "github.com/outboxgen/outboxgen/internal/variants/rowsdelete/gen/orderevents"
)

// TestServersTakeEveryStatement: sqlc lets some SQL through that a server does
// not, and leaves arguments in the text where it does not look for them.
func TestServersTakeEveryStatement(t *testing.T) {
	for project, tables := range map[string]func() []string{
		"../..":                   orderevents.Schema,
		"../variants/lanesdelete": lanesdelete.Schema,
		"../variants/rows":        rows.Schema,
		"../variants/rowsdelete":  rowsdelete.Schema,
	} {
		t.Run(filepath.Base(project), func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
				server.Exec(t, schema.Statements()...)
				server.Exec(t, tables()...)
				db := server.Open(t)
				for name, statement := range statements(t, project) {
					prepared, err := db.PrepareContext(t.Context(), statement)
					if err != nil {
						t.Errorf("%s: %v", name, err)
						continue
					}
					_ = prepared.Close()
				}
			})
		})
	}
}

// statements are the constants of sqlc's output, by name.
func statements(t *testing.T, project string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(project + "/gen/orderevents/internal/outboxdb/*.sql.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sqlc output in %s: %v", project, err)
	}
	out := map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			if text, ok := spec.Values[0].(*ast.BasicLit); ok && text.Kind == token.STRING {
				out[spec.Names[0].Name], err = strconv.Unquote(text.Value)
				if err != nil {
					t.Fatal(err)
				}
			}
			return true
		})
	}
	return out
}
