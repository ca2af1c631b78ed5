package sqlcrun

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// checkRequests reports a source whose request can't tell one row from another:
// no primary or unique key of the table is made of its columns alone.
func checkRequests(in Input, schema []schemaFile) diag.List {
	var problems diag.List
	for _, r := range in.SQL.Reconciles {
		s := r.Source
		columns := make([]string, len(s.Request))
		for i, c := range s.Request {
			columns[i] = c.Text
		}
		t := readTable(s.Table.Text, schema)
		if len(columns) == 0 || len(t.created) == 0 || t.unclear || t.hasKeyWithin(columns) {
			continue
		}
		list := strings.Join(columns, ", ")
		d := at(s.Request[0], "request-not-unique",
			fmt.Sprintf("the table %q has no unique key of %s: several rows could match one request", s.Table.Text, list),
			fmt.Sprintf("add UNIQUE (%s) to the table", list))
		if last := s.Request[len(columns)-1]; last.Pos.Line == d.Pos.Line {
			d.End = last.Pos
			d.End.Col += len(last.Text)
		}
		d.Related = []diag.Related{{Pos: in.position(t.created[0], schema), Message: "the table is created here"}}
		problems.Add(d)
	}
	return problems
}

// position is how findings name a place in the user's DDL.
func (in Input) position(p place, schema []schemaFile) diag.Pos {
	pos := diag.Pos{File: in.shown(p.file)}
	for _, f := range schema {
		if f.path == p.file {
			before := f.data[:p.offset]
			pos.Line = 1 + bytes.Count(before, []byte("\n"))
			pos.Col = p.offset - bytes.LastIndexByte(before, '\n')
		}
	}
	return pos
}
