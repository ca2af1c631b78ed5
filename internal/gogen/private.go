package gogen

import (
	"fmt"

	"github.com/dave/jennifer/jen"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// hiddenValue is what is printed in place of a private field.
const hiddenValue = "[pii]"

// hidePrivate keeps fields marked pii out of prints and logs. Format serves
// every verb of fmt, %#v and %d among them, and whatever holds the value in an
// exported field. LogValue is for slog, whose JSON handler would otherwise
// encode the value as it is sent; a struct that only holds such structs needs
// it too.
func (f *file) hidePrivate(s structType) {
	if !f.g.private[s.goName] {
		return
	}
	direct := false
	var shown, values []jen.Code
	for _, field := range s.fields {
		if field.PII {
			direct = true
			shown = append(shown, jen.Id(field.GoName).String())
			values = append(values, keyed(field.GoName, jen.Lit(hiddenValue)))
			continue
		}
		shown = append(shown, jen.Id(field.GoName).Add(f.fieldType(field)))
		values = append(values, keyed(field.GoName, jen.Id("p").Dot(field.GoName)))
	}
	f.g.checkMethodName(s, "LogValue")
	if direct {
		f.g.checkMethodName(s, "Format")
		f.add(docComment("Format keeps the fields marked pii out of everything that fmt prints."),
			"func ("+s.goName+") Format",
			jen.Func().Params(jen.Id("p").Id(s.goName)).Id("Format").
				Params(jen.Id("s").Add(f.qual("fmt", "State")), jen.Id("verb").Rune()).Block(
				jen.Type().Id("shown").Struct(shown...),
				f.qual("fmt", "Fprintf").Call(jen.Id("s"), f.qual("fmt", "FormatString").Call(jen.Id("s"), jen.Id("verb")),
					jen.Id("shown").Add(lines("{", "}", values...))),
			))
	}
	f.add(docComment("LogValue keeps the fields marked pii out of logs."),
		"func ("+s.goName+") LogValue",
		jen.Func().Params(jen.Id("p").Id(s.goName)).Id("LogValue").Params().Add(f.qual("log/slog", "Value")).Block(
			jen.Return(f.qual("log/slog", "StringValue").Call(
				f.qual("fmt", "Sprintf").Call(jen.Lit("%+v"), jen.Id("p")))),
		))
}

// checkMethodName reports a field with the name of one of these methods.
func (g *generator) checkMethodName(s structType, method string) {
	for _, field := range s.fields {
		if field.GoName == method {
			g.problems.Add(diag.Diagnostic{
				Pos:     field.Name.Pos,
				Rule:    "go-name-clash",
				Message: fmt.Sprintf("the field %q has the Go name %s, which is a method of types with private fields", field.Name.Text, method),
				Hint:    "set go_name",
			})
		}
	}
}
