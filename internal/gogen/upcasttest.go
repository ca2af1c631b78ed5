package gogen

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/dave/jennifer/jen"

	"github.com/outboxgen/outboxgen/internal/sample"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// upcastTests has a test for each older version of the events that are handled: its
// fixture is decoded as the newest version, whose encoding is frozen beside it. Where
// user code is needed, the next version's fixture stands in for it.
func (f *file) upcastTests() {
	older, customDefault := false, false
	for _, e := range f.g.model.Events {
		if !f.g.isHandled(e) {
			continue
		}
		for i, v := range e.Versions[:len(e.Versions)-1] {
			older = true
			customDefault = f.upcastTest(e, i, v) || customDefault
		}
	}
	if steps := f.g.manualSteps(); len(steps) > 0 {
		f.sampleUpcaster(steps)
	}
	if older {
		f.testUpcast()
	}
	if customDefault {
		f.rewritten()
	}
}

// upcastTest reports whether the wanted encoding goes through the types: how a type of
// the user's own writes a default, it alone knows.
func (f *file) upcastTest(e *spec.Event, i int, v *spec.Version) (customDefault bool) {
	constant, name := "upcastOf"+v.GoName, "Test"+v.GoName+"Upcast"
	values := f.g.fixture(e, v)
	for _, next := range e.Versions[i+1:] {
		values = f.g.upcastValues(e, next, values)
		customDefault = customDefault || f.g.upcastFails(next)
	}
	f.add(docComment(wrap(fmt.Sprintf("%s is what consumers get of fixture%s, as version %d.", constant, v.GoName, e.Newest().Number))),
		"const "+constant, jen.Const().Id(constant).Op("=").Add(text(sample.Encode(e.Newest(), values))))
	decode := jen.Id("decode" + e.GoName)
	if isManual(e.Newest(), e) {
		decode = decode.Call(jen.Id("sampleUpcaster").Values())
	}
	want := jen.Id(constant)
	if customDefault {
		want = jen.Id("rewritten").Types(jen.Id(e.GoName)).Call(jen.Id("t"), want)
	}
	f.add(nil, "func "+name, jen.Func().Id(name).Params(f.t()).Block(
		jen.List(jen.Id("payload"), jen.Err()).Op(":=").Add(decode).Call(
			jen.Lit(v.Number), jen.Index().Byte().Parens(jen.Id("fixture"+v.GoName))),
		fatalIfErr(),
		jen.Id("testUpcast").Call(jen.Id("t"), jen.Id("payload"), want),
	))
	return customDefault
}

// upcastValues are the values that a version has when it is made of these of the
// version before.
func (g *generator) upcastValues(e *spec.Event, v *spec.Version, before map[string]string) map[string]string {
	values := map[string]string{}
	for _, field := range v.Upcast.Filled {
		values[field.Name.Text] = encodedDefault(field)
	}
	for _, c := range v.Upcast.Copied {
		name := c.To.Name.Text
		if value, ok := before[name]; ok {
			values[name] = value
		} else if c.Default {
			values[name] = encodedDefault(c.To)
		}
	}
	if len(v.Upcast.Open) > 0 {
		fresh := g.fixture(e, v)
		for _, field := range v.Upcast.Open {
			values[field.Name.Text] = fresh[field.Name.Text]
		}
	}
	return values
}

// encodedDefault is a default as Go encodes it: of 1.0 it makes 1.
func encodedDefault(field *spec.Field) string {
	if field.Type.Kind == spec.KindFloat64 {
		if n, err := strconv.ParseFloat(field.Default.JSON, 64); err == nil {
			if b, err := json.Marshal(n); err == nil {
				return string(b)
			}
		}
	}
	return field.Default.JSON
}

// sampleUpcaster fills what is left to user code.
func (f *file) sampleUpcaster(steps []step) {
	const name = "sampleUpcaster"
	f.add(docComment(wrap(name+" stands in for your code: it fills what is left to that with the values of the version's fixture.")),
		"type "+name, jen.Type().Id(name).Struct())
	for _, s := range steps {
		method := "Upcast" + upcastName(s.to)
		body, err := []jen.Code{}, jen.Nil()
		if len(s.to.Upcast.Open) > 0 {
			err = jen.Err()
			body = append(body, jen.List(jen.Id("sample"), jen.Err()).Op(":=").Add(f.outbox("DecodePayload").Types(jen.Id(s.to.GoName))).
				Call(jen.Index().Byte().Parens(jen.Id("fixture"+s.to.GoName))))
		}
		for _, field := range s.to.Upcast.Open {
			body = append(body, jen.Id("next").Dot(field.GoName).Op("=").Id("sample").Dot(field.GoName))
		}
		body = append(body, jen.Return(jen.Id("next"), err))
		f.add(nil, "func ("+name+") "+method, jen.Func().Params(jen.Id(name)).Id(method).
			Params(jen.Id("_").Id(s.to.Upcast.From.GoName), jen.Id("next").Id(s.to.GoName)).
			Params(jen.Id(s.to.GoName), jen.Error()).Block(body...))
	}
}

func (f *file) testUpcast() {
	f.add(docComment("testUpcast compares what was made of an older version with what it must be."),
		"func testUpcast",
		jen.Func().Id("testUpcast").Params(f.t(), jen.Id("payload").Add(f.outbox("Payload")), jen.Id("want").String()).Block(
			jen.Id("t").Dot("Helper").Call(),
			jen.If(jen.Err().Op(":=").Id("payload").Dot("Validate").Call(), jen.Err().Op("!=").Nil()).Block(
				jen.Id("t").Dot("Fatal").Call(jen.Err())),
			jen.List(jen.Id("encoded"), jen.Err()).Op(":=").Add(f.qual("encoding/json", "Marshal")).Call(jen.Id("payload")),
			fatalIfErr(),
			jen.If(jen.String().Parens(jen.Id("encoded")).Op("!=").Id("want")).Block(
				jen.Id("t").Dot("Errorf").Call(jen.Lit("upcast:\n%s\nwant:\n%s"), jen.Id("encoded"), jen.Id("want"))),
		))
}

// rewritten passes a wanted encoding through the types.
func (f *file) rewritten() {
	f.add(docComment("rewritten is a payload as its types write it: a default in events.yaml may have another form."),
		"func rewritten",
		jen.Func().Id("rewritten").Types(jen.Id("T").Any()).Params(f.t(), jen.Id("want").String()).String().Block(
			jen.Id("t").Dot("Helper").Call(),
			jen.List(jen.Id("payload"), jen.Err()).Op(":=").Add(f.outbox("DecodePayload").Types(jen.Id("T"))).Call(jen.Index().Byte().Parens(jen.Id("want"))),
			fatalIfErr(),
			jen.List(jen.Id("encoded"), jen.Err()).Op(":=").Add(f.qual("encoding/json", "Marshal")).Call(jen.Id("payload")),
			fatalIfErr(),
			jen.Return(jen.String().Parens(jen.Id("encoded"))),
		))
}

func fatalIfErr() jen.Code {
	return jen.If(jen.Err().Op("!=").Nil()).Block(jen.Id("t").Dot("Fatal").Call(jen.Err()))
}
