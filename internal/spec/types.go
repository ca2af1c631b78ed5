package spec

import (
	"fmt"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// isEnum tells the two kinds of named types apart; it is known from the
// declaration on, before the values or fields are read.
func (n *Named) isEnum() bool { return n.Enum != nil }

// declareTypes notes the names under types:, so that fields may use a type
// that is declared further down.
func (c *checker) declareTypes(o object) {
	n := c.optional(o, "types")
	if n == nil || !c.isMapping(o.vals["types"].key, n, "types") {
		return
	}
	for _, e := range n.entries {
		c.checkName(e.key, e.key.text, typeName)
		named := &Named{Name: Name{e.key.text, e.key.pos}, GoName: e.key.text, Pos: e.key.pos}
		for _, part := range e.val.entries {
			if part.key.text == "enum" {
				named.Enum = []EnumValue{}
			}
		}
		c.types[e.key.text] = named
		c.model.Types = append(c.model.Types, named)
	}
}

func (c *checker) readTypes(o object) {
	n := c.optional(o, "types")
	if n == nil {
		return
	}
	for _, e := range n.entries {
		c.readType(e, c.types[e.key.text])
	}
}

func (c *checker) readType(e entry, named *Named) {
	what := "the type " + quote(e.key.text)
	if e.val.kind == kindScalar || e.val.kind == kindList {
		c.problem(e.val, "wrong-shape", what+" must be an enum or a struct", "give it enum: [a, b] or fields:")
		return
	}
	o, ok := c.object(e.key, e.val, what, "doc", "enum", "fields", "go_name")
	if !ok {
		return
	}
	named.Doc = c.prose(o)
	named.GoName = c.goNameOf(o, named.GoName)
	if named.Go == nil {
		c.claimNames(e.key, "type "+quote(e.key.text), named.GoName)
	}
	switch {
	case o.has("enum") && o.has("fields"):
		c.problem(o.vals["fields"].key, "two-shapes", what+" has both enum and fields", "keep one of them",
			diag.Related{Pos: o.vals["enum"].key.pos, Message: "enum is here"})
	case o.has("enum"):
		c.enumValues(o.vals["enum"].val, named, what)
	case o.has("fields"):
		named.Fields = c.fields(o.vals["fields"], what, fieldOwner{goName: named.GoName})
	default:
		c.problem(e.key, "missing-key", what+" lacks enum or fields", "give it enum: [a, b] or fields:")
	}
}

// enumValues reads the values of an enum; named has its GoName already.
func (c *checker) enumValues(n *node, named *Named, what string) {
	named.Enum = []EnumValue{}
	first := map[string]diag.Pos{}
	for _, item := range c.list(n, "the enum of "+what, "enum: [a, b]") {
		if c.isUnquotedNumber(item, "the enum value") {
			continue
		}
		name, ok := c.name(item, enumValue)
		if !ok {
			continue
		}
		if pos, twice := first[name.Text]; twice {
			c.problem(item, "duplicate-value", fmt.Sprintf("the enum value %s appears twice", quote(name.Text)), "remove one of them",
				diag.Related{Pos: pos, Message: "first declared here"})
			continue
		}
		first[name.Text] = item.pos
		value := EnumValue{Name: name, GoName: named.GoName + goName(name.Text)}
		if named.GoName != "" && named.Go == nil {
			c.claimValue(item, "enum value "+quote(name.Text), value.GoName)
		}
		named.Enum = append(named.Enum, value)
	}
}
