package gogen

import (
	"fmt"
	"path"

	"github.com/dave/jennifer/jen"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// UpcasterStub is where the stub of the upcaster is, below the folder of the stubs.
const UpcasterStub = spec.UpcasterPackage + "/upcasts.go"

// stubFile is the beginning of a consumer: written once, then the user's.
func (g *generator) stubFile(c *spec.Consumer) *file {
	dir := path.Join(g.stubs, c.Package)
	f := &file{g: g, path: path.Join(dir, "handler.go"), jen: jen.NewFile(c.Package), once: true}
	for _, line := range docComment(fmt.Sprintf("Package %s is the consumer %s.", c.Package, c.Name.Text), c.Doc) {
		f.jen.PackageComment(line)
	}
	handler := func() *jen.Statement { return f.qual(g.pkg, handlerName(c)) }
	f.add(docComment(wrap(fmt.Sprintf("Handler implements %s.%s.", g.model.Go.Package.Text, handlerName(c)))),
		"type Handler", jen.Type().Id("Handler").Struct())
	f.add(nil, "var _", jen.Var().Id("_").Add(handler()).Op("=").Parens(jen.Op("*").Id("Handler")).Parens(jen.Nil()))
	for _, e := range c.Handles {
		name := "Handle" + e.GoName
		f.add(docComment(name+" applies "+e.Name.Text+"."), "func (*Handler) "+name,
			jen.Func().Params(jen.Id("h").Op("*").Id("Handler")).Add(f.handleMethod(e, f.qual(g.pkg, e.GoName))).Block(
				jen.Comment("// To return nil is to acknowledge: the event would count as applied, and its"),
				jen.Comment("// effect would be lost. With an error it comes again."),
				jen.Return(f.qual("errors", "New").Call(jen.Lit("not implemented yet: "+e.Name.Text))),
			))
	}
	return f
}

// upcasterStub is the beginning of the upcaster: written once, then the user's.
func (g *generator) upcasterStub(steps []step) *file {
	f := &file{g: g, path: path.Join(g.stubs, UpcasterStub), jen: jen.NewFile(spec.UpcasterPackage), once: true}
	f.jen.PackageComment("// Package upcasts makes newer payloads of older ones.")
	f.add(docComment(wrap(fmt.Sprintf("%s implements %s.%[1]s.", upcasterName, g.model.Go.Package.Text))),
		"type "+upcasterName, jen.Type().Id(upcasterName).Struct())
	f.add(nil, "var _", jen.Var().Id("_").Add(f.qual(g.pkg, upcasterName)).Op("=").
		Parens(jen.Op("*").Id(upcasterName)).Parens(jen.Nil()))
	for _, s := range steps {
		name := "Upcast" + upcastName(s.to)
		f.add(docComment(wrap(stepDoc(s))), "func (*"+upcasterName+") "+name,
			jen.Func().Params(jen.Id("u").Op("*").Id(upcasterName)).
				Add(upcastMethod(s.to, func(v *spec.Version) jen.Code { return f.qual(g.pkg, v.GoName) })).Block(
				jen.Comment("// Until this is written, such events are parked; a redrive applies them."),
				jen.Return(jen.Id("prefilled"), f.qual("errors", "New").Call(
					jen.Lit(fmt.Sprintf("not implemented yet: %s from version %d to %d", s.event.Name.Text, s.to.Upcast.From.Number, s.to.Number)))),
			))
	}
	return f
}
