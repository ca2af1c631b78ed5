package sqlcrun

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
)

// A probe is a query of one column (or of one table) that events.yaml names.
// sqlc stops at the first unknown column of a query and doesn't look into
// TIMESTAMPDIFF at all, so the reconcile queries alone would not tell every
// wrong name. Its description of the columns gives their types as well.
type probe struct {
	query  string
	name   spec.Name // what is asked for
	table  spec.Name
	column bool // false: the table itself
	role   role
}

type role string

const (
	roleEventID   role = "event_id"
	roleAggregate role = "aggregate_id"
	roleCreatedAt role = "created_at"
	roleRequest   role = "request"
)

func probesOf(reconciles []sqlgen.Reconcile) []probe {
	var probes []probe
	add := func(p probe) {
		p.query = "Probe" + strconv.Itoa(len(probes))
		probes = append(probes, p)
	}
	for _, r := range reconciles {
		s := r.Source
		add(probe{name: s.Table, table: s.Table})
		add(probe{name: s.EventID, table: s.Table, column: true, role: roleEventID})
		add(probe{name: s.AggregateID, table: s.Table, column: true, role: roleAggregate})
		add(probe{name: s.CreatedAt, table: s.Table, column: true, role: roleCreatedAt})
		for _, column := range s.Request {
			add(probe{name: column, table: s.Table, column: true, role: roleRequest})
		}
	}
	return probes
}

// probeSQL writes each probe on two lines: translate finds it by its line. The
// last one is there so that the file is never empty.
func probeSQL(probes []probe) []byte {
	var b bytes.Buffer
	for _, p := range probes {
		what := "1"
		if p.column {
			what = "`" + p.name.Text + "`"
		}
		fmt.Fprintf(&b, "-- name: %s :many\nSELECT %s FROM `%s`;\n", p.query, what, p.table.Text)
	}
	b.WriteString("-- name: ProbeNothing :many\nSELECT 1;\n")
	return b.Bytes()
}

func probeAt(probes []probe, line int) (probe, bool) {
	if i := (line - 1) / 2; line > 0 && i < len(probes) {
		return probes[i], true
	}
	return probe{}, false
}

// probeConfig is a second package of sqlc's, with the same tables, whose output
// is a description in JSON instead of Go.
func (s *stage) probeConfig() string {
	up := "../" // to the stage's own folder
	if dir := path.Dir(s.in.SQL.Config); dir != "." {
		up += strings.Repeat("../", strings.Count(dir, "/")+1)
	}
	var files []string
	for _, f := range s.in.SQL.Files {
		if path.Base(f.Path) == "schema.sql" {
			files = append(files, strconv.Quote(up+path.Join(treeDir, f.Path)))
		}
	}
	for _, f := range s.schema {
		files = append(files, strconv.Quote(up+path.Join(treeDir, f.path)))
	}
	return fmt.Sprintf(`  - engine: mysql
    schema: [%s]
    queries: [%q]
    gen:
      json:
        out: %q
        filename: %q
`, strings.Join(files, ", "), up+path.Join(probeDir, probeFile), up+probeDir, probeJSON)
}

// described is what sqlc writes of queries and tables.
type described struct {
	Catalog struct {
		Schemas []struct {
			Tables []struct {
				Rel     struct{ Name string }
				Columns []describedColumn
			}
		}
	}
	Queries []struct {
		Name    string
		Columns []describedColumn
	}
}

type describedColumn struct {
	Name    string
	NotNull bool `json:"not_null"`
	Type    struct{ Name string }
}

func (s *stage) described() (described, error) {
	var d described
	data, err := os.ReadFile(filepath.Join(s.dir, probeDir, probeJSON))
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err != nil {
		return d, fmt.Errorf("read sqlc's description of the columns: %w", err)
	}
	return d, nil
}

// checkColumns compares the columns that a source names with what the
// generated Go code does with them.
func checkColumns(in Input, s *stage) (diag.List, error) {
	d, err := s.described()
	if err != nil {
		return nil, err
	}
	columns := map[string]describedColumn{}
	for _, q := range d.Queries {
		if len(q.Columns) == 1 {
			columns[q.Name] = q.Columns[0]
		}
	}
	var problems diag.List
	for _, p := range s.probes {
		column, ok := columns[p.query]
		if !p.column || !ok {
			continue
		}
		if message, hint := p.unfit(column); message != "" {
			problems.Add(at(p.name, "source-column", message, hint))
		}
	}
	return problems, nil
}

// unfit says why a column can't have its role.
func (p probe) unfit(c describedColumn) (message, hint string) {
	kind := strings.ToLower(c.Type.Name)
	what := fmt.Sprintf("%s is the column %q of table %q, which", p.role, p.name.Text, p.table.Text)
	switch {
	case p.role == roleEventID && !isText(kind):
		return fmt.Sprintf("%s is of type %s, not a text", what, kind),
			"an event id is kept as CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL"
	case p.role == roleCreatedAt && kind != "datetime" && kind != "timestamp":
		return fmt.Sprintf("%s is of type %s, not a time", what, kind), "use a DATETIME(6) NOT NULL that holds UTC"
	case !c.NotNull && p.role == roleRequest:
		return what + " may be NULL", "declare it NOT NULL: a unique key lets any number of NULLs pass"
	case !c.NotNull:
		return what + " may be NULL", "declare it NOT NULL"
	}
	return "", ""
}

func isText(kind string) bool {
	return strings.Contains(kind, "char") && !strings.Contains(kind, "binary") || strings.HasSuffix(kind, "text")
}
