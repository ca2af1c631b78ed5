package gogen

import (
	"fmt"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// structType is a named struct or a payload.
type structType struct {
	goName string
	doc    []string // paragraphs
	fields []*spec.Field
}

// collectTypes finds every struct and enum, and settles what takes a walk
// through all of them: which structs have something to check, and which hold
// private fields.
func (g *generator) collectTypes() {
	seen := map[*spec.Named]bool{}
	var visit func(n *spec.Named, sentence string)
	visitFields := func(fields []*spec.Field) {
		for _, f := range fields {
			if t := f.Type.Innermost(); t.Named != nil && t.Named.Inline {
				visit(t.Named, "is the type of the field "+f.Name.Text+".")
			}
		}
	}
	visit = func(n *spec.Named, sentence string) {
		if seen[n] {
			return
		}
		seen[n] = true
		g.named = append(g.named, n)
		if !isEnum(n) {
			g.structs = append(g.structs, structType{n.GoName, withName(n.GoName, sentence, n.Doc), n.Fields})
			visitFields(n.Fields)
		}
	}
	for _, n := range g.model.Types {
		if n.Go != nil {
			continue // somebody else has written it
		}
		visit(n, "is the type "+n.Name.Text+" of events.yaml.")
	}
	for _, e := range g.model.Events {
		for _, v := range e.Versions {
			g.structs = append(g.structs, structType{v.GoName, payloadDoc(e, v), v.Fields})
			visitFields(v.Fields)
		}
	}
	g.checked = g.closure(func(t *spec.Type) bool { return g.checksItself(t, false) })
	g.private = g.closure(nil)
}

// payloadDoc is the paragraphs about a version's struct.
func payloadDoc(e *spec.Event, v *spec.Version) []string {
	if !v.Listed {
		return append(withName(v.GoName, "is the payload of "+e.Name.Text+".", e.Doc), deprecated(e.Deprecated))
	}
	doc := withName(v.GoName, fmt.Sprintf("is version %d of the payload of %s.", v.Number, e.Name.Text), e.Doc)
	retired := ""
	if v.Deprecated != "" {
		// Not marked as deprecated: an upcaster is to use it.
		retired = wrap("Nobody writes it any more: " + strings.TrimRight(v.Deprecated, ". \n") + ".")
	}
	return append(doc, v.Doc, retired, deprecated(e.Deprecated))
}

// closure returns the structs that have a field of which is holds, directly or
// in a struct below. Without is, the fields are those marked pii.
func (g *generator) closure(is func(*spec.Type) bool) map[string]bool {
	set := map[string]bool{}
	for changed := true; changed; {
		changed = false
		for _, s := range g.structs {
			if set[s.goName] {
				continue
			}
			for _, f := range s.fields {
				if is == nil && isPrivate(f) || is != nil && is(f.Type) || set[structIn(f.Type)] {
					set[s.goName] = true
					changed = true
				}
			}
		}
	}
	return set
}

// structIn returns the generated struct at the bottom of a type, or "".
func structIn(t *spec.Type) string {
	if t = t.Innermost(); t.Kind == spec.KindStruct && t.Go == nil {
		return t.Named.GoName
	}
	return ""
}

func isEnum(n *spec.Named) bool { return n.Enum != nil }

// isNilable reports types whose Go type has a nil of its own, which stands for
// an absent value: there is never a pointer to one.
func (g *generator) isNilable(t *spec.Type) bool {
	switch t.Kind {
	case spec.KindList, spec.KindMap:
		return true
	case spec.KindBytes, spec.KindJSON:
		return t.Go == nil
	}
	return false
}

// goType is the Go type of a required value.
func (f *file) goType(t *spec.Type) *jen.Statement {
	if t.Go != nil {
		return f.qual(t.Go.ImportPath, t.Go.Ident)
	}
	switch t.Kind {
	case spec.KindDecimal:
		return f.outbox("Decimal")
	case spec.KindUUID:
		return f.qual(uuidPath, "UUID")
	case spec.KindTimestamp:
		return f.outbox("Timestamp")
	case spec.KindDate:
		return f.outbox("Date")
	case spec.KindDuration:
		return f.outbox("Duration")
	case spec.KindBytes:
		return jen.Index().Byte()
	case spec.KindJSON:
		return f.qual("encoding/json", "RawMessage")
	case spec.KindList:
		return jen.Index().Add(f.goType(t.Elem))
	case spec.KindMap:
		return jen.Map(jen.String()).Add(f.goType(t.Elem))
	case spec.KindEnum, spec.KindStruct:
		return jen.Id(t.Named.GoName)
	default: // string, bool, int32, int64, float64
		return jen.Id(string(t.Kind))
	}
}

// fieldType is the Go type of a field.
func (f *file) fieldType(field *spec.Field) *jen.Statement {
	if field.Optional && !f.g.isNilable(field.Type) {
		return jen.Op("*").Add(f.goType(field.Type))
	}
	return f.goType(field.Type)
}

// lines is a comma-separated list with an element a line.
func lines(open, closing string, items ...jen.Code) *jen.Statement {
	return jen.Custom(jen.Options{Open: open, Close: closing, Separator: ",", Multi: true}, items...)
}

// keyed is name: value in a composite literal.
func keyed(name string, value jen.Code) jen.Code { return jen.Id(name).Op(":").Add(value) }

// ifErr is if err != nil { return … }.
func ifErr(results ...jen.Code) jen.Code {
	return jen.If(jen.Err().Op("!=").Nil()).Block(jen.Return(results...))
}
