package gogen

import (
	"fmt"

	"github.com/dave/jennifer/jen"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// eventsFile has the types of all payloads and what they are made of.
func (g *generator) eventsFile() *file {
	f := g.newFile("events.gen.go")
	for _, line := range docComment(wrap(fmt.Sprintf(
		"Package %s has the events of the service %s: their payloads, writers and consumers.",
		g.model.Go.Package.Text, g.model.Service.Text))) {
		f.jen.PackageComment(line)
	}
	f.add(docComment("The generator that wrote this file and the runtime it is built with must agree."),
		"const _", jen.Const().Id("_").Op("=").Add(f.outbox("GeneratedAPIv1")))
	f.add(docComment("Service is the producer of the events, their CloudEvents source."),
		"const Service", jen.Const().Id("Service").Op("=").Lit(g.model.Service.Text))
	f.eventTypes()
	for _, n := range g.named {
		if isEnum(n) {
			f.enum(n)
		}
	}
	for _, s := range g.structs {
		f.structType(s)
	}
	for _, e := range g.model.Events {
		if newest := e.Newest(); newest.Listed {
			f.add(docComment(wrap(fmt.Sprintf("%s is the newest version of the payload of %s.", e.GoName, e.Name.Text)), deprecated(e.Deprecated)),
				"type "+e.GoName, jen.Type().Id(e.GoName).Op("=").Id(newest.GoName))
		}
	}
	return f
}

func (f *file) eventTypes() {
	var names []string
	var specs []jen.Code
	for _, e := range f.g.model.Events {
		name := "EventType" + e.GoName
		names = append(names, name)
		for _, line := range docComment(deprecated(e.Deprecated)) {
			specs = append(specs, jen.Comment(line))
		}
		specs = append(specs, jen.Id(name).Op("=").Lit(e.Name.Text))
	}
	f.consts(docComment("The types of the events, as they stand in the outbox and in messages."), names, specs)
}

func (f *file) structType(s structType) {
	fields := make([]jen.Code, 0, len(s.fields))
	for _, field := range s.fields {
		for _, line := range docComment(field.Doc, deprecated(field.Deprecated)) {
			fields = append(fields, jen.Comment(line))
		}
		fields = append(fields, jen.Id(field.GoName).Add(f.fieldType(field)).Tag(f.jsonTag(field)))
	}
	f.add(docComment(s.doc...), "type "+s.goName, jen.Type().Id(s.goName).Struct(fields...))
	f.validate(s)
	f.marshalJSON(s)
	f.unmarshalJSON(s)
	f.hidePrivate(s)
}

// jsonTag leaves an absent value out. For a pointer that takes omitempty:
// omitzero would ask the value's IsZero method, which decimal.Decimal and
// time.Time have, and an amount of 0 would be lost. For a list it takes
// omitzero: omitempty would lose an empty one.
func (f *file) jsonTag(field *spec.Field) map[string]string {
	switch {
	case !field.Optional:
		return map[string]string{"json": field.Name.Text}
	case f.g.isNilable(field.Type):
		return map[string]string{"json": field.Name.Text + ",omitzero"}
	default:
		return map[string]string{"json": field.Name.Text + ",omitempty"}
	}
}
