// Package sqlgen turns the model into SQL: the tables, the queries that sqlc
// compiles, and sqlc's configuration. The text itself is in templates/.
package sqlgen

import (
	"path"

	"github.com/outboxgen/outboxgen/internal/ddl"
	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/fileset"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// Result is what the model becomes on the database's side.
type Result struct {
	Files      []fileset.File // the tables, the queries, sqlc's configuration
	Config     string         // path of sqlc's configuration
	Out        string         // folder that sqlc's Go code goes to
	DDL        []string       // the statements that create our tables, in order, without comments
	Reconciles []Reconcile    // the queries on the user's own tables
}

// Reconcile is a query on a table of the user's, and what it was made of.
type Reconcile struct {
	Query  string // its sqlc name, and that of its Go method
	Event  *spec.Event
	Source *spec.Source
}

// Our query files, in the folder sql.queries.
const (
	schemaFile    = "schema.sql"
	outboxFile    = "outbox.sql"
	claimFile     = "claim.sql" // of one of the two kinds of lease
	purgeFile     = "purge.sql"
	consumedFile  = "consumed.sql"
	reconcileFile = "reconcile.sql"
)

// Generate renders the SQL of m. It reads no file: whether the user's own
// tables are as the model says is sqlcrun's to find out.
func Generate(m *spec.Model) (Result, diag.List) {
	if problems := checkPaths(m); len(problems) > 0 {
		return Result{}, problems
	}
	result := Result{
		Config:     m.SQL.Config.Text,
		Out:        path.Join(m.Go.Out.Text, "internal", "outboxdb"),
		Reconciles: reconciles(m),
	}
	r := newRenderer(m)
	data := templateData{
		Reconciles:      result.Reconciles,
		Lanes:           m.Outbox.Ordering == spec.OrderingAggregate,
		DeletePublished: m.Outbox.KeepPublished == 0,
	}

	names := []string{outboxFile, claimFile, consumedFile, purgeFile}
	if len(result.Reconciles) > 0 { // sqlc refuses a file without queries
		names = append(names, reconcileFile)
	}
	queries := make([]string, 0, len(names))
	for _, name := range names {
		file := path.Join(m.SQL.Queries.Text, name)
		queries = append(queries, file)
		result.Files = append(result.Files, fileset.File{Path: file, Data: r.render(templateFor(name, data), data)})
	}
	tables := fileset.File{Path: path.Join(m.SQL.Queries.Text, schemaFile), Data: r.render(schemaFile, data)}
	result.Files = append(result.Files, tables)
	for _, statement := range ddl.Split(string(tables.Data)) {
		result.DDL = append(result.DDL, statement.SQL)
	}

	schema := []string{tables.Path}
	for _, s := range m.SQL.Schema {
		schema = append(schema, s.Text)
	}
	from := path.Dir(result.Config)
	data.Schema = relative(from, schema...)
	data.Queries = relative(from, queries...)
	data.Out = relative(from, result.Out)[0]
	result.Files = append(result.Files, fileset.File{Path: result.Config, Data: r.render("sqlc.yaml", data)})
	return result, r.problems
}

// templateFor is the name of the template that a file is made from.
func templateFor(file string, data templateData) string {
	switch {
	case file != claimFile:
		return file
	case data.Lanes:
		return "claim_lanes.sql"
	default:
		return "claim_rows.sql"
	}
}

func reconciles(m *spec.Model) []Reconcile {
	var out []Reconcile
	for _, e := range m.Events {
		if e.Source != nil {
			out = append(out, Reconcile{Query: "Reconcile" + e.GoName, Event: e, Source: e.Source})
		}
	}
	return out
}
