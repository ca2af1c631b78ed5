package gogen

import (
	"fmt"
	"path"

	"github.com/dave/jennifer/jen"

	"github.com/outboxgen/outboxgen/internal/spec"
)

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
