package gogen

import (
	"strconv"

	"github.com/dave/jennifer/jen"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// validate writes Validate and check, which says what is wrong below a field of
// another struct.
func (f *file) validate(s structType) {
	name := s.goName
	doc := docComment("Validate says why p must not be written. No message of it holds a value.")
	if !f.g.checked[name] {
		f.add(doc, "func ("+name+") Validate",
			jen.Func().Params(jen.Id(name)).Id("Validate").Params().Error().Block(jen.Return(jen.Nil())))
		return
	}
	f.add(doc, "func ("+name+") Validate",
		jen.Func().Params(jen.Id("p").Id(name)).Id("Validate").Params().Error().Block(
			jen.Var().Id("c").Add(f.outbox("Check")),
			jen.Id("p").Dot("check").Call(jen.Op("&").Id("c")),
			jen.Return(jen.Id("c").Dot("Err").Call()),
		))
	f.add(nil, "func ("+name+") check",
		jen.Func().Params(jen.Id("p").Id(name)).Id("check").Params(jen.Id("c").Op("*").Add(f.outbox("Check"))).
			BlockFunc(func(b *jen.Group) {
				for _, field := range s.fields {
					f.checkField(b, field)
				}
			}))
}

func (f *file) checkField(b *jen.Group, field *spec.Field) {
	if !f.g.hasChecks(field.Type, false) && !f.requiredJSON(field) {
		return
	}
	label := jen.Lit(field.Name.Text)
	value := func() *jen.Statement { return jen.Id("p").Dot(field.GoName) }
	switch {
	case f.requiredJSON(field):
		// null would be read back as a missing key.
		b.If(jen.String().Parens(f.qual("bytes", "TrimSpace").Call(value())).Op("==").Lit("null")).Block(
			jen.Id("c").Dot("Fail").Call(label, jen.Lit("null in a required field")),
		).Else().Block(jen.Id("c").Dot("JSON").Call(label, value()))
	case !field.Optional || field.Type.Kind == spec.KindList || field.Type.Kind == spec.KindMap:
		f.check(b, field.Type, label, value(), 1)
	case f.g.isNilable(field.Type):
		b.If(value().Op("!=").Nil()).BlockFunc(func(b *jen.Group) { f.check(b, field.Type, label, value(), 1) })
	default:
		deref := jen.Op("*").Add(value())
		if field.Type.Go == nil && (field.Type.Kind == spec.KindEnum || field.Type.Kind == spec.KindStruct) {
			deref = value() // Go dereferences for a method
		}
		b.If(value().Op("!=").Nil()).BlockFunc(func(b *jen.Group) { f.check(b, field.Type, label, deref, 1) })
	}
}

func (f *file) requiredJSON(field *spec.Field) bool {
	return !field.Optional && field.Type.Kind == spec.KindJSON && f.g.isNilable(field.Type)
}

// check writes the check of a value that is there. label is an expression.
func (f *file) check(b *jen.Group, t *spec.Type, label, value jen.Code, depth int) {
	call := func(method string, args ...jen.Code) {
		b.Id("c").Dot(method).Call(append([]jen.Code{label}, args...)...)
	}
	if t.Go != nil {
		call("Value", value)
		return
	}
	switch t.Kind {
	case spec.KindString:
		call("String", value)
	case spec.KindFloat64:
		call("Float", value)
	case spec.KindDecimal, spec.KindTimestamp, spec.KindDate:
		call("Value", value)
	case spec.KindJSON:
		call("JSON", value)
	case spec.KindEnum:
		call("Enum", jen.Add(value).Dot("Valid").Call())
	case spec.KindStruct:
		call("In", jen.Add(value).Dot("check"))
	case spec.KindList:
		i, v := local("i", depth), local("v", depth)
		b.For(jen.List(jen.Id(i), jen.Id(v)).Op(":=").Range().Add(value)).BlockFunc(func(b *jen.Group) {
			f.checkElement(b, t.Elem, f.outbox("At").Call(label, jen.Id(i)), v, depth)
		})
	case spec.KindMap:
		f.checkMap(b, t, label, value, depth)
	}
}

func (f *file) checkMap(b *jen.Group, t *spec.Type, label, value jen.Code, depth int) {
	k, v := local("k", depth), local("v", depth)
	vars := jen.Id(k)
	if f.g.hasChecks(t.Elem, true) {
		vars = jen.List(jen.Id(k), jen.Id(v))
	}
	element := func() jen.Code { return f.outbox("AtKey").Call(label) }
	b.For(vars.Op(":=").Range().Add(value)).BlockFunc(func(b *jen.Group) {
		b.Id("c").Dot("String").Call(element(), jen.Id(k))
		if f.g.hasChecks(t.Elem, true) {
			f.checkElement(b, t.Elem, element(), v, depth)
		}
	})
}

// checkElement checks an element of a list or a map. A nil list would be
// encoded as null there, which is not what was declared.
func (f *file) checkElement(b *jen.Group, t *spec.Type, label jen.Code, v string, depth int) {
	if f.g.refusesNil(t) {
		b.If(jen.Id(v).Op("==").Nil()).Block(jen.Id("c").Dot("Fail").Call(label, jen.Lit("nil; use an empty value")))
	}
	if f.g.hasChecks(t, false) {
		f.check(b, t, label, jen.Id(v), depth+1)
	}
}

// local is the name of a loop variable.
func local(name string, depth int) string {
	if depth == 1 {
		return name
	}
	return name + strconv.Itoa(depth)
}

// refusesNil reports types whose nil is refused in a list or a map. A nil json
// is refused as "no JSON value" by the check of every json value.
func (g *generator) refusesNil(t *spec.Type) bool {
	return g.isNilable(t) && t.Kind != spec.KindJSON
}

// hasChecks reports whether there is anything to check in a value.
func (g *generator) hasChecks(t *spec.Type, element bool) bool {
	return g.checksItself(t, element) || g.checked[structIn(t)]
}

// checksItself is hasChecks without the structs below.
func (g *generator) checksItself(t *spec.Type, element bool) bool {
	if t.Go != nil || element && g.refusesNil(t) {
		return true
	}
	switch t.Kind {
	case spec.KindString, spec.KindFloat64, spec.KindDecimal, spec.KindTimestamp, spec.KindDate,
		spec.KindJSON, spec.KindEnum, spec.KindMap:
		return true
	case spec.KindList:
		return g.checksItself(t.Elem, true)
	}
	return false
}
