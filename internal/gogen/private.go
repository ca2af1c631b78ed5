package gogen

import (
	"fmt"
	"slices"

	"github.com/dave/jennifer/jen"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// hiddenValue is what is printed in place of a private field.
const hiddenValue = "[pii]"

// hidePrivate keeps fields marked pii out of prints and logs, in the struct
// that has them and in those that hold it.
//
// Format serves every verb of fmt, where String would leave %d and %#v. The
// structs around need it too: fmt prints a pointer to a struct under a verb that
// isn't for pointers, such as %s, without asking the fields' own methods.
// LogValue is for slog, whose JSON handler would otherwise encode the value as
// it is sent.
func (f *file) hidePrivate(s structType) {
	if !f.g.private[s.goName] {
		return
	}
	f.g.checkMethodName(s, "Format")
	f.g.checkMethodName(s, "LogValue")
	body := f.printShown(s)
	if !hasPII(s) {
		body = []jen.Code{
			jen.Type().Id("plain").Id(s.goName),
			f.print(jen.Id("plain").Call(jen.Id("p"))),
		}
	}
	f.add(docComment("Format keeps the fields marked pii out of everything that fmt prints."),
		"func ("+s.goName+") Format",
		jen.Func().Params(jen.Id("p").Id(s.goName)).Id("Format").
			Params(jen.Id("s").Add(f.qual("fmt", "State")), jen.Id("verb").Rune()).Block(body...))
	f.add(docComment("LogValue keeps the fields marked pii out of logs."),
		"func ("+s.goName+") LogValue",
		jen.Func().Params(jen.Id("p").Id(s.goName)).Id("LogValue").Params().Add(f.qual("log/slog", "Value")).Block(
			jen.Return(f.qual("log/slog", "StringValue").Call(
				f.qual("fmt", "Sprintf").Call(jen.Lit("%+v"), jen.Id("p")))),
		))
}

// printShown prints a struct of the same fields, the private ones replaced.
func (f *file) printShown(s structType) []jen.Code {
	var fields, values []jen.Code
	for _, field := range s.fields {
		if isPrivate(field) {
			fields = append(fields, jen.Id(field.GoName).String())
			values = append(values, keyed(field.GoName, jen.Lit(hiddenValue)))
			continue
		}
		fields = append(fields, jen.Id(field.GoName).Add(f.fieldType(field)))
		values = append(values, keyed(field.GoName, jen.Id("p").Dot(field.GoName)))
	}
	return []jen.Code{
		jen.Type().Id("shown").Struct(fields...),
		f.print(jen.Id("shown").Add(lines("{", "}", values...))),
	}
}

func (f *file) print(value jen.Code) jen.Code {
	return f.qual("fmt", "Fprintf").Call(jen.Id("s"), f.qual("fmt", "FormatString").Call(jen.Id("s"), jen.Id("verb")), value)
}

func hasPII(s structType) bool {
	for _, field := range s.fields {
		if isPrivate(field) {
			return true
		}
	}
	return false
}

// isPrivate reports a field whose value isn't printed: it is marked, or a Go type of
// the user's own stands for a type that holds one which is. What that prints isn't known.
func isPrivate(field *spec.Field) bool {
	t := field.Type.Innermost()
	return field.PII || t.Go != nil && t.Named != nil && declaresPII(t.Named, nil)
}

func declaresPII(n *spec.Named, seen []*spec.Named) bool {
	if slices.Contains(seen, n) {
		return false
	}
	seen = append(seen, n)
	return slices.ContainsFunc(n.Fields, func(f *spec.Field) bool {
		inner := f.Type.Innermost().Named
		return f.PII || inner != nil && declaresPII(inner, seen)
	})
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
