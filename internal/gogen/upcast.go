package gogen

import (
	"encoding/json"

	"github.com/dave/jennifer/jen"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// upcastFunc is the function that does what needs no user code of a step.
func upcastFunc(v *spec.Version) string {
	if v.Upcast.Manual {
		return "prefill" + upcastName(v)
	}
	return "upcast" + upcastName(v)
}

// upcastFails reports whether a default of a step is one that only a custom Go type
// can read.
func (g *generator) upcastFails(v *spec.Version) bool {
	for _, field := range v.Upcast.Filled {
		if readsDefault(field) {
			return true
		}
	}
	for _, c := range v.Upcast.Copied {
		if c.Default && readsDefault(c.To) {
			return true
		}
	}
	return false
}

// readsDefault reports a default that only a Go type of the user's own can read.
func readsDefault(field *spec.Field) bool { return field.Type.Go != nil }

// upcast writes the function that makes a version of the one before, as far as no
// user code is needed.
func (f *file) upcast(v *spec.Version) {
	name, next := upcastFunc(v), jen.Id(v.GoName).Values()
	if items := f.taken(v); len(items) > 0 {
		next = jen.Id(v.GoName).Add(lines("{", "}", items...))
	}
	results, returned := []jen.Code{jen.Id(v.GoName)}, []jen.Code{jen.Id("next")}
	var body []jen.Code
	if f.g.upcastFails(v) {
		body = append(body, jen.Var().Id("d").Add(f.outbox("Defaults")))
		results, returned = append(results, jen.Error()), append(returned, jen.Id("d").Dot("Err").Call())
	}
	body = append(body, jen.Id("next").Op(":=").Add(next))
	for _, c := range v.Upcast.Copied {
		if c.Default {
			body = append(body, jen.If(jen.Id("v").Dot(c.From.GoName).Op("!=").Nil()).Block(
				jen.Id("next").Dot(c.To.GoName).Op("=").Add(f.copied(c))))
		}
	}
	var doc []string
	if v.Upcast.Manual {
		doc = docComment(wrap(name + " takes over what it can, and fills in defaults. The upcaster does the rest."))
	}
	f.add(doc, "func "+name, jen.Func().Id(name).Params(jen.Id("v").Id(v.Upcast.From.GoName)).Params(results...).
		Block(append(body, jen.Return(returned...))...))
}

// taken are the fields of a version that are taken over or have a default, in the
// order of the struct.
func (f *file) taken(v *spec.Version) []jen.Code {
	values := map[*spec.Field]jen.Code{}
	for _, field := range v.Upcast.Filled {
		values[field] = f.defaultValue(field)
	}
	for _, c := range v.Upcast.Copied {
		if c.Default {
			values[c.To] = f.defaultValue(c.To)
		} else {
			values[c.To] = f.copied(c)
		}
	}
	var items []jen.Code
	for _, field := range v.Fields {
		if value, ok := values[field]; ok {
			items = append(items, keyed(field.GoName, value))
		}
	}
	return items
}

// copied is the value of a field that is taken over.
func (f *file) copied(c *spec.Copy) jen.Code {
	value := jen.Id("v").Dot(c.From.GoName)
	from := c.From.Optional && !f.g.isNilable(c.From.Type) // a pointer
	to := c.To.Optional && !f.g.isNilable(c.To.Type)
	converted := func(v *jen.Statement) *jen.Statement {
		switch {
		case !c.Convert:
			return v
		case to: // pointers to types of one underlying type convert
			return jen.Parens(jen.Op("*").Add(f.goType(c.To.Type))).Parens(v)
		default:
			return f.goType(c.To.Type).Parens(v)
		}
	}
	switch {
	case from && !to:
		return converted(jen.Op("*").Add(value))
	case !from && to:
		return converted(jen.Op("&").Add(value))
	default:
		return converted(value)
	}
}

// defaultValue is a field's default.
func (f *file) defaultValue(field *spec.Field) jen.Code {
	encoded, t := field.Default.JSON, field.Type
	if readsDefault(field) {
		return f.outbox("Default").Types(f.goType(t)).Call(jen.Op("&").Id("d"), jen.Lit(field.Name.Text), text(encoded))
	}
	switch t.Kind {
	case spec.KindList, spec.KindMap:
		return f.goType(t).Values()
	case spec.KindString, spec.KindDecimal:
		return jen.Lit(unquote(encoded))
	case spec.KindEnum:
		for _, v := range t.Named.Enum {
			if v.Name.Text == unquote(encoded) {
				return jen.Id(v.GoName)
			}
		}
	}
	return jen.Op(encoded) // a number or a boolean
}

// unquote reads a default that is a JSON string: the model holds no other.
func unquote(encoded string) string {
	var s string
	_ = json.Unmarshal([]byte(encoded), &s)
	return s
}
