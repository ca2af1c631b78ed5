package gogen

import (
	"github.com/dave/jennifer/jen"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// marshalJSON makes nil encode as an empty value where one is required. A type
// without such a field needs no method.
func (f *file) marshalJSON(s structType) {
	var fill []jen.Code
	for _, field := range s.fields {
		if field.Optional || !f.g.refusesNil(field.Type) {
			continue
		}
		value := func() *jen.Statement { return jen.Id("p").Dot(field.GoName) }
		fill = append(fill, jen.If(value().Op("==").Nil()).Block(value().Op("=").Add(f.goType(field.Type)).Values()))
	}
	if fill == nil {
		return
	}
	body := append([]jen.Code{jen.Type().Id("plain").Id(s.goName)}, fill...)
	body = append(body, jen.Return(f.qual("encoding/json", "Marshal").Call(jen.Id("plain").Call(jen.Id("p")))))
	f.add(docComment("MarshalJSON encodes a nil list, map or byte slice as an empty one."),
		"func ("+s.goName+") MarshalJSON",
		jen.Func().Params(jen.Id("p").Id(s.goName)).Id("MarshalJSON").Params().
			Params(jen.Index().Byte(), jen.Error()).Block(body...))
}

// unmarshalJSON tells a key that is missing, or null, from a zero value: it
// decodes into pointers. A type without required fields needs no method, unless
// a json field would keep null, which must be the same as absent.
func (f *file) unmarshalJSON(s structType) {
	needed := false
	var shadow, values, after []jen.Code
	for _, field := range s.fields {
		name, wire := field.GoName, field.Name.Text
		decoded := func() *jen.Statement { return jen.Id("s").Dot(name) }
		isJSON := field.Type.Kind == spec.KindJSON && f.g.isNilable(field.Type)
		pointer := jen.Op("*").Add(f.goType(field.Type))
		switch {
		case !field.Optional:
			needed = true
			values = append(values, keyed(name, f.outbox("Required").Call(jen.Op("&").Id("m"), jen.Lit(wire), decoded())))
		case isJSON:
			needed = true
			after = append(after, jen.If(decoded().Op("!=").Nil()).Block(
				jen.Id("p").Dot(name).Op("=").Op("*").Add(decoded())))
		default:
			pointer = f.fieldType(field)
			values = append(values, keyed(name, decoded()))
		}
		shadow = append(shadow, jen.Id(name).Add(pointer).Tag(map[string]string{"json": wire}))
	}
	if !needed {
		return
	}
	body := []jen.Code{
		jen.Var().Id("s").Struct(shadow...),
		jen.If(jen.Err().Op(":=").Add(f.qual("encoding/json", "Unmarshal")).Call(jen.Id("data"), jen.Op("&").Id("s")),
			jen.Err().Op("!=").Nil()).Block(jen.Return(jen.Err())),
		jen.Var().Id("m").Add(f.outbox("Missing")),
		jen.Op("*").Id("p").Op("=").Id(s.goName).Add(lines("{", "}", values...)),
	}
	body = append(body, after...)
	body = append(body, jen.Return(jen.Id("m").Dot("Err").Call()))
	f.add(docComment("UnmarshalJSON refuses an object that lacks a required key, or has null for one."),
		"func (*"+s.goName+") UnmarshalJSON",
		jen.Func().Params(jen.Id("p").Op("*").Id(s.goName)).Id("UnmarshalJSON").
			Params(jen.Id("data").Index().Byte()).Error().Block(body...))
}
