package gogen

import (
	"fmt"

	"github.com/dave/jennifer/jen"

	"github.com/outboxgen/outboxgen/internal/sample"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// fixturesFile has the tests of the payloads' wire form.
func (g *generator) fixturesFile() *file {
	f := g.newFile("events_gen_test.go")
	for _, e := range g.model.Events {
		for _, v := range e.Versions {
			f.fixtureTest(e, v)
		}
	}
	f.testFixture()
	f.upcastTests()
	return f
}

func (f *file) fixtureTest(e *spec.Event, v *spec.Version) {
	constant, name := "fixture"+v.GoName, "Test"+v.GoName+"Fixture"
	what := e.Name.Text
	if v.Listed {
		what = fmt.Sprintf("version %d of %s", v.Number, what)
	}
	f.add(docComment(wrap(constant+" is how "+what+" is sent. It must not change: messages of this form may wait in a broker.")),
		"const "+constant, jen.Const().Id(constant).Op("=").Add(text(sample.Encode(v, f.g.fixture(e, v)))))
	args := []jen.Code{jen.Id("t"), jen.Id(constant)}
	for _, field := range v.Fields {
		if !field.Optional {
			args = append(args, jen.Lit(field.Name.Text))
		}
	}
	f.add(nil, "func "+name, jen.Func().Id(name).Params(f.t()).Block(
		jen.Id("testFixture").Types(jen.Id(v.GoName)).Call(args...)))
}

func (f *file) t() jen.Code { return jen.Id("t").Op("*").Add(f.qual("testing", "T")) }

func (f *file) testFixture() {
	marshal, unmarshal := f.qual("encoding/json", "Marshal"), f.qual("encoding/json", "Unmarshal")
	decode := f.outbox("DecodePayload").Types(jen.Id("T"))
	errAssign := func() *jen.Statement { return jen.Err().Op(":=") }
	f.add(docComment("testFixture reads and writes a payload byte for byte, and misses each required key."),
		"func testFixture",
		jen.Func().Id("testFixture").Types(jen.Id("T").Add(f.outbox("Payload"))).Params(
			f.t(), jen.Id("fixture").String(), jen.Id("required").Op("...").String(),
		).Block(
			jen.Id("t").Dot("Helper").Call(),
			jen.List(jen.Id("payload"), jen.Err()).Op(":=").Add(decode.Clone()).Call(jen.Index().Byte().Parens(jen.Id("fixture"))),
			fatalIfErr(),
			jen.If(errAssign().Id("payload").Dot("Validate").Call(), jen.Err().Op("!=").Nil()).Block(
				jen.Id("t").Dot("Fatal").Call(jen.Err())),
			jen.List(jen.Id("encoded"), jen.Err()).Op(":=").Add(marshal.Clone()).Call(jen.Id("payload")),
			fatalIfErr(),
			jen.If(jen.String().Parens(jen.Id("encoded")).Op("!=").Id("fixture")).Block(
				jen.Id("t").Dot("Errorf").Call(jen.Lit("encoded:\n%s\nwant:\n%s"), jen.Id("encoded"), jen.Id("fixture"))),
			jen.For(jen.List(jen.Id("_"), jen.Id("key")).Op(":=").Range().Id("required")).Block(
				jen.Var().Id("object").Map(jen.String()).Add(f.qual("encoding/json", "RawMessage")),
				jen.If(errAssign().Add(unmarshal).Call(jen.Index().Byte().Parens(jen.Id("fixture")), jen.Op("&").Id("object")),
					jen.Err().Op("!=").Nil()).Block(jen.Id("t").Dot("Fatal").Call(jen.Err())),
				jen.Delete(jen.Id("object"), jen.Id("key")),
				jen.List(jen.Id("without"), jen.Err()).Op(":=").Add(marshal.Clone()).Call(jen.Id("object")),
				fatalIfErr(),
				jen.Var().Id("missing").Op("*").Add(f.outbox("MissingFieldsError")),
				jen.List(jen.Id("_"), jen.Err()).Op("=").Add(decode.Clone()).Call(jen.Id("without")),
				jen.If(jen.Op("!").Add(f.qual("errors", "As")).Call(jen.Err(), jen.Op("&").Id("missing")).Op("||").
					Op("!").Add(f.qual("slices", "Equal")).Call(jen.Id("missing").Dot("Fields"), jen.Index().String().Values(jen.Id("key")))).Block(
					jen.Id("t").Dot("Errorf").Call(jen.Lit("without %q: %v"), jen.Id("key"), jen.Err())),
			),
		))
}
