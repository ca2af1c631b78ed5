package gogen

import (
	"github.com/dave/jennifer/jen"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// enum writes a string type, its values, and Valid. Decoding keeps a value that
// this build doesn't know; writing refuses it.
func (f *file) enum(n *spec.Named) {
	sentence := "is one of several values."
	if !n.Inline {
		sentence = "is the enum " + n.Name.Text + " of events.yaml."
	}
	doc := append(withName(n.GoName, sentence, n.Doc),
		"A value decoded from a message of a newer producer may be none of those below.")
	f.add(docComment(doc...), "type "+n.GoName, jen.Type().Id(n.GoName).String())

	names := make([]string, 0, len(n.Enum))
	specs := make([]jen.Code, 0, len(n.Enum))
	values := make([]jen.Code, 0, len(n.Enum))
	for _, v := range n.Enum {
		names = append(names, v.GoName)
		specs = append(specs, jen.Id(v.GoName).Id(n.GoName).Op("=").Lit(v.Name.Text))
		values = append(values, jen.Id(v.GoName))
	}
	f.consts(docComment("The values of "+n.GoName+"."), names, specs)

	f.add(docComment("Valid reports whether v is one of the declared values."), "func ("+n.GoName+") Valid",
		jen.Func().Params(jen.Id("v").Id(n.GoName)).Id("Valid").Params().Bool().Block(
			jen.Switch(jen.Id("v")).Block(
				jen.Case(values...).Block(jen.Return(jen.True())),
				jen.Default().Block(jen.Return(jen.False())),
			),
		))
}
