package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// fieldOwner is what a field stands in.
type fieldOwner struct {
	goName  string // types declared in a field are named after it
	payload bool   // an event's version: its fields may have a default
}

// fields reads a fields: mapping. A field that is broken is in the result
// too, without a type, so that what refers to it by name finds it.
func (c *checker) fields(e entry, what string, owner fieldOwner) []*Field {
	if e.val.kind == kindList {
		c.problem(e.val, "wrong-shape", "fields must be a mapping of names to types, found a list", "write name: type on lines of their own, without dashes")
		return nil
	}
	if !c.isMapping(e.key, e.val, "fields of "+what) {
		return nil
	}
	if len(e.val.entries) == 0 {
		c.problem(e.key, "empty-value", what+" has no fields", "give it at least one")
	}
	var fields []*Field
	byName, byGoName := map[string]*Field{}, map[string]*Field{}
	for _, fe := range e.val.entries {
		f := c.field(fe, owner)
		if first := byName[f.Name.Text]; first != nil {
			c.problem(fe.key, "duplicate-key", fmt.Sprintf("the field %s appears twice", quote(f.Name.Text)), "remove or rename one of them",
				diag.Related{Pos: first.Name.Pos, Message: "first declared here"})
			continue
		}
		if first := byGoName[f.GoName]; first != nil {
			c.problem(fe.key, "go-name-clash", fmt.Sprintf("the fields %s and %s both have the Go name %s", quote(first.Name.Text), quote(f.Name.Text), f.GoName),
				"set go_name on one of them", diag.Related{Pos: first.Name.Pos, Message: "first declared here"})
		} else if slices.Contains(methodNames(), f.GoName) {
			c.problem(fe.key, "go-name-clash", fmt.Sprintf("the field %s has the Go name %s, which is a method of the generated type", quote(f.Name.Text), f.GoName),
				"set go_name")
		}
		byName[f.Name.Text], byGoName[f.GoName] = f, f
		fields = append(fields, f)
	}
	return fields
}

// methodNames are the methods of every generated struct: Go allows no field
// of the same name.
func methodNames() []string { return []string{"Validate", "MarshalJSON", "UnmarshalJSON"} }

func (c *checker) field(e entry, owner fieldOwner) *Field {
	wire, optional := strings.CutSuffix(e.key.text, "?")
	f := &Field{Name: Name{wire, e.key.pos}, Optional: optional}
	if c.checkFieldName(e.key, wire) {
		f.GoName = goName(wire)
	} else {
		f.GoName = "?" + wire // no Go name, so no clash with one
	}
	if e.val.kind != kindMapping {
		f.Type = c.typeOf(e.val, wire)
		return f
	}
	c.longField(e, f, owner)
	return f
}

func (c *checker) checkFieldName(key *node, wire string) bool {
	bare := *key
	bare.text = wire
	if strings.HasSuffix(key.text, "?") {
		bare.plain = false // y? is no boolean to anybody
	}
	return c.checkName(&bare, wire, fieldName)
}

// longField reads { type: ..., doc: ... } and the inline enum and struct.
func (c *checker) longField(e entry, f *Field, owner fieldOwner) {
	what := "the field " + quote(f.Name.Text)
	keys := []string{"type", "enum", "fields", "doc", "optional", "pii", "deprecated", "default", "go_name", "go_type"}
	if looksLikeFields(e.val, keys) {
		c.problem(e.key, "missing-key", what+" lacks type, enum or fields", "put the inner fields under fields:")
		return
	}
	o, ok := c.object(e.key, e.val, what, keys...)
	if !ok {
		return
	}
	f.Doc = c.prose(o)
	f.Deprecated = c.deprecated(o)
	f.PII = c.boolean(o, "pii")
	f.GoName = c.goNameOf(o, f.GoName)
	if o.has("optional") {
		long := c.boolean(o, "optional")
		if f.Optional && !long && o.vals["optional"].val.text == "false" {
			c.problem(o.vals["optional"].val, "contradiction", fmt.Sprintf("%s is optional by its name", quote(f.Name.Text+"?")), "remove the question mark or the key optional")
		}
		f.Optional = f.Optional || long
	}
	f.Type = c.shapeOf(o, f, what, owner.goName)
	if o.has("go_type") {
		c.fieldGoType(o.vals["go_type"], f, what)
	}
	if o.has("default") {
		c.fieldDefault(o.vals["default"], f, what, owner.payload)
	}
}

// looksLikeFields recognises a mapping that was meant as an inline struct.
func looksLikeFields(n *node, keys []string) bool {
	for _, e := range n.entries {
		if slices.Contains(keys, e.key.text) {
			return false
		}
	}
	return len(n.entries) > 0
}

func (c *checker) shapeOf(o object, f *Field, what, ownerGoName string) *Type {
	var given []entry
	for _, key := range []string{"type", "enum", "fields"} {
		if e, ok := o.vals[key]; ok {
			given = append(given, e)
		}
	}
	switch {
	case len(given) == 0:
		c.problem(o.at, "missing-key", what+" lacks type, enum or fields", "")
		return nil
	case len(given) > 1:
		c.problem(given[1].key, "two-shapes", fmt.Sprintf("%s has both %s and %s", what, given[0].key.text, given[1].key.text), "keep one of them",
			diag.Related{Pos: given[0].key.pos, Message: given[0].key.text + " is here"})
		return nil
	}
	shape := given[0]
	if shape.key.text == "type" {
		return c.typeOf(shape.val, f.Name.Text)
	}
	named := &Named{GoName: ownerGoName + f.GoName, Doc: f.Doc, Inline: true, Pos: o.at.pos}
	if ownerGoName == "" || strings.HasPrefix(f.GoName, "?") {
		named.GoName = "" // one of the names it is made of was refused
	}
	c.claimNames(o.at, "the inline type of the field "+quote(f.Name.Text), named.GoName)
	if shape.key.text == "enum" {
		c.enumValues(shape.val, named, what)
		return &Type{Kind: KindEnum, Named: named, Pos: shape.val.pos}
	}
	named.Fields = c.fields(shape, what, fieldOwner{goName: named.GoName})
	return &Type{Kind: KindStruct, Named: named, Pos: shape.val.pos}
}
