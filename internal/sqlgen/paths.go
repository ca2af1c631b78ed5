package sqlgen

import (
	"fmt"
	"path"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// checkPaths refuses paths by which our SQL and the user's would be taken for
// one another, or which sqlc would read as patterns.
func checkPaths(m *spec.Model) diag.List {
	var problems diag.List
	report := func(n spec.Name, message, hint string) {
		problems.Add(diag.Diagnostic{Pos: n.Pos, End: end(n), Rule: "bad-path", Message: message, Hint: hint})
	}
	all := append([]spec.Name{m.Go.Out, m.SQL.Queries, m.SQL.Config}, m.SQL.Schema...)
	for _, n := range all {
		if strings.ContainsAny(n.Text, "*?[]") {
			report(n, fmt.Sprintf("the path %q holds one of * ? [ ], which sqlc takes for a pattern", n.Text),
				"name the folder: its .sql files are read in order of their names")
		}
	}
	queries := m.SQL.Queries.Text
	for _, s := range m.SQL.Schema {
		switch {
		case s.Text == queries:
			report(s, fmt.Sprintf("%q is the folder of the generated queries", s.Text),
				"keep your own tables in another folder, or name their files one by one")
		case path.Dir(s.Text) == queries && isOurs(path.Base(s.Text)):
			report(s, fmt.Sprintf("%q is a generated file", s.Text),
				"list only files with tables of your own: ours are read anyway")
		}
	}
	switch path.Ext(m.SQL.Config.Text) {
	case ".yaml", ".yml":
	default:
		report(m.SQL.Config, fmt.Sprintf("sqlc's configuration %q is not a .yaml file", m.SQL.Config.Text), `write "sqlc.yaml"`)
	}
	return problems
}

func isOurs(name string) bool {
	switch name {
	case schemaFile, outboxFile, claimFile, consumedFile, purgeFile, reconcileFile:
		return true
	}
	return false
}

// end is where a name ends that stands without quotes.
func end(n spec.Name) diag.Pos {
	if !n.Pos.IsValid() {
		return diag.Pos{}
	}
	return diag.Pos{File: n.Pos.File, Line: n.Pos.Line, Col: n.Pos.Col + len(n.Text)}
}
