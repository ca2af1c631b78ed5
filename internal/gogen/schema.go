package gogen

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dave/jennifer/jen"
)

// schemaFile has the statements that make our tables.
func (g *generator) schemaFile() *file {
	f := g.newFile("schema.gen.go")
	statements := make([]jen.Code, len(g.ddl))
	for i, statement := range g.ddl {
		statements[i] = text(statement)
	}
	f.add(docComment(wrap("Schema returns the statements that make the tables of the outbox, "+
		"in the order in which to run them: those of "+path.Join(g.model.SQL.Queries.Text, "schema.sql")+".")), "func Schema", jen.Func().Id("Schema").Params().Index().String().Block(
		jen.Return(jen.Index().String().Add(lines("{", "}", statements...))),
	))
	return f
}

// text is a string literal, a raw one where that says the same.
func text(s string) jen.Code {
	odd := func(r rune) bool {
		return r == '`' || r == '\r' || r == '\ufeff' || unicode.IsControl(r) && r != '\n' && r != '\t'
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, odd) {
		return jen.Lit(s)
	}
	return jen.Op("`" + s + "`")
}
