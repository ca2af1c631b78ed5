package gogen

import (
	"fmt"
	"go/token"
	"go/types"
	"strings"
	"unicode"

	"github.com/dave/jennifer/jen"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// reconcileFile has a function for each event whose business row is known, nil
// when there is none.
func (g *generator) reconcileFile() *file {
	f := g.newFile("reconcile.gen.go")
	db := readSQLC(g.db)
	found := false
	for _, e := range g.model.Events {
		if e.Source != nil {
			found = true
			f.reconcile(e, db)
		}
	}
	if !found {
		return nil
	}
	return f
}

func (f *file) reconcile(e *spec.Event, db sqlcOutput) {
	name := "Reconcile" + e.GoName
	params, row := db.structs[name+"Params"], db.structs[name+"Row"]
	if len(params) != len(e.Source.Request) || len(row) != 3 {
		f.g.problems.Add(diag.Diagnostic{
			Pos:     e.Source.Pos,
			Rule:    "source-query",
			Message: fmt.Sprintf("sqlc made no query of the source of %s that can be used", e.Name.Text),
			Hint:    "check that sql.schema has the table and its columns",
		})
		return
	}
	signature, values, ok := f.requestParams(e, params, db)
	results, rowOK := f.rowValues(e, row, db)
	if !ok || !rowOK {
		return
	}
	reconciled := func() *jen.Statement { return f.outbox("Reconciled") }
	f.add(docComment(
		wrap(fmt.Sprintf("%s settles a transaction whose outcome is Unknown: it tells whether the business row of the event %s, "+
			"which commits together with it, is there.", name, e.Name.Text)),
		wrap("It asks with a locking read, which waits for a transaction that is still open. "+
			"outbox.ErrStillUnknown says to ask again later, and is never an absence; "+
			"outbox.ErrRequestNotUnique, that several rows match."),
		deprecated(e.Deprecated),
	), "func "+name, jen.Func().Id(name).Params(signature...).Params(reconciled(), jen.Error()).Block(
		jen.Return(f.outbox("Reconcile").Call(jen.Id("ctx"), jen.Id("db"),
			jen.Func().Params(
				jen.Id("ctx").Add(f.qual("context", "Context")),
				jen.Id("tx").Add(f.outbox("Transaction")),
			).Params(reconciled(), jen.Error()).Block(
				jen.List(jen.Id("rows"), jen.Err()).Op(":=").Add(f.queries("tx")).Dot(name).Call(jen.Id("ctx"),
					f.qual(f.g.outboxdb, name+"Params").Add(lines("{", "}", values...))),
				ifErr(reconciled().Values(), jen.Err()),
				jen.Id("found").Op(":=").Make(jen.Index().Add(reconciled()), jen.Len(jen.Id("rows"))),
				jen.For(jen.List(jen.Id("i"), jen.Id("row")).Op(":=").Range().Id("rows")).Block(
					jen.List(jen.Id("found").Index(jen.Id("i")), jen.Err()).Op("=").Add(f.outbox("NewReconciled").Call(results...)),
					ifErr(reconciled().Values(), jen.Err()),
				),
				jen.Return(f.outbox("ReconciledRows").Call(jen.Id("found"))),
			))),
	))
}

// requestParams are the parameters of the function, and the fields of sqlc's
// struct made of them. The names and types are sqlc's, but for types of its own
// package, which stay behind it.
func (f *file) requestParams(e *spec.Event, fields []sqlcField, db sqlcOutput) (params, values []jen.Code, ok bool) {
	params = []jen.Code{
		jen.Id("ctx").Add(f.qual("context", "Context")),
		jen.Id("db").Op("*").Add(f.outbox("DB")),
	}
	taken := map[string]bool{"ctx": true, "db": true, "tx": true, "rows": true, "err": true, "found": true, "i": true, "row": true}
	ok = true
	for i, field := range fields {
		column := e.Source.Request[i]
		name := paramName(field.name, taken)
		value := jen.Id(name)
		basic := db.basic(field.typ)
		switch {
		case field.typ.isNullable():
			f.g.nullableColumn(column, "request")
			ok = false
			continue
		case basic != "":
			params = append(params, jen.Id(name).Add(basicType(basic)))
			if field.typ.name != basic {
				value = f.qual(f.g.outboxdb, field.typ.name).Call(value)
			}
		case field.typ.importPath != "":
			params = append(params, jen.Id(name).Add(f.qual(field.typ.importPath, field.typ.name)))
		default:
			f.g.columnType(column, "request", "a number, a text or a time")
			ok = false
			continue
		}
		values = append(values, keyed(field.name, value))
	}
	return params, values, ok
}

// rowValues are the arguments of NewReconciled: event id, aggregate id and
// microseconds, as the query selects them.
func (f *file) rowValues(e *spec.Event, row []sqlcField, db sqlcOutput) (args []jen.Code, ok bool) {
	ok = true
	for i, column := range []struct {
		name  spec.Name
		role  string
		wants string
		fits  func(basic string) bool
	}{
		{e.Source.EventID, "event_id", "a text, such as CHAR(36)", isText},
		{e.Source.AggregateID, "aggregate_id", "a number or a text", func(b string) bool { return isText(b) || strings.Contains(b, "int") }},
		{e.Source.CreatedAt, "created_at", "a DATETIME", func(b string) bool { return b == "int64" }},
	} {
		field := row[i]
		basic := db.basic(field.typ)
		value := jen.Id("row").Dot(field.name)
		switch {
		case field.typ.isNullable():
			f.g.nullableColumn(column.name, column.role)
			ok = false
		case !column.fits(basic):
			f.g.columnType(column.name, column.role, column.wants)
			ok = false
		case isText(basic) && field.typ.name != "string":
			value = jen.String().Call(value)
		}
		args = append(args, value)
	}
	return args, ok
}

func isText(basic string) bool { return basic == "string" || basic == "[]byte" }

func (g *generator) nullableColumn(column spec.Name, role string) {
	g.problems.Add(diag.Diagnostic{
		Pos:     column.Pos,
		Rule:    "source-column-nullable",
		Message: fmt.Sprintf("the %s column %q may be NULL", role, column.Text),
		Hint:    "declare it NOT NULL: a row without it could not be found, or not be told from another",
	})
}

func (g *generator) columnType(column spec.Name, role, wants string) {
	g.problems.Add(diag.Diagnostic{
		Pos:     column.Pos,
		Rule:    "source-column-type",
		Message: fmt.Sprintf("the %s column %q has a type that can't be used", role, column.Text),
		Hint:    "it must be " + wants,
	})
}

// paramName makes a parameter's name of a field's: TenantID is tenantID, URL is
// url. Names that mean something else in the function get a suffix.
func paramName(fieldName string, taken map[string]bool) string {
	runes := []rune(fieldName)
	for i := range runes {
		startsWord := i > 0 && i+1 < len(runes) && unicode.IsLower(runes[i+1])
		if !unicode.IsUpper(runes[i]) || startsWord {
			break
		}
		runes[i] = unicode.ToLower(runes[i])
	}
	name := string(runes)
	for taken[name] || isReserved(name) {
		name += "Value"
	}
	taken[name] = true
	return name
}

// isReserved reports keywords, predeclared names, and the packages that the
// function uses.
func isReserved(name string) bool {
	switch name {
	case "context", "outbox", "outboxdb", "time", "json", "sql":
		return true
	}
	return token.IsKeyword(name) || types.Universe.Lookup(name) != nil
}
