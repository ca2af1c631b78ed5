package importer

import (
	"fmt"
	"slices"
	"strings"
)

// place is what a schema is for.
type place struct {
	label string    // for notes: "order.accepted.total"
	name  string    // of a type that has to be declared: "OrderAcceptedTotal"
	field bool      // it is a field's own, where an enum needs no name
	todos *[]string // of what it stands at
}

func (p place) inner(word string) place {
	return place{p.label + "." + word, p.name + " " + word, false, p.todos}
}

// about is what a schema says of the field that it is for.
type about struct {
	doc, deprecated string
	nullable, pii   bool
}

func (a about) or(b about) about {
	if a.doc == "" {
		a.doc = b.doc
	}
	if a.deprecated == "" {
		a.deprecated = b.deprecated
	}
	a.nullable = a.nullable || b.nullable
	a.pii = a.pii || b.pii
	return a
}

// shapeOf is the type that a schema describes; json where there is none.
func (im *importer) shapeOf(n *node, p place) (shape, about) {
	if im.shapes++; im.shapes > maxShapes {
		if im.tooLarge == nil {
			im.tooLarge = &refusal{n.pos, fmt.Sprintf("more than %d schemas, those behind references counted each time", maxShapes), "import its parts one by one"}
		}
		return scalar("json"), about{}
	}
	if n.kind == kindBool && n.text == "true" {
		return scalar("json"), about{}
	}
	if n.kind != kindMapping {
		im.note(n, p.label, p.todos, "it has no schema that can be read")
		return scalar("json"), about{}
	}
	if n.get("$ref") != nil {
		return im.referred(n, p)
	}
	a := im.annotations(n)
	if inner, nullable, ok := im.alternative(n, p); ok {
		if inner == nil {
			return scalar("json"), a
		}
		s, b := im.shapeOf(inner, p)
		a.nullable = a.nullable || nullable
		return s, a.or(b)
	}
	im.leftovers(n, p)
	types, nullable := typesOf(n)
	a.nullable = a.nullable || nullable
	return im.plain(n, types, p), a
}

func (im *importer) annotations(n *node) about {
	a := about{doc: n.str("description"), nullable: n.get("nullable").isTrue(), pii: n.get("x-pii").isTrue()}
	if a.doc == "" {
		a.doc = n.str("title")
	}
	if n.get("deprecated").isTrue() {
		a.deprecated = "the source says so, and not why"
	}
	return a
}

// referred follows a reference: to a declared type, or to a schema that needs no name.
func (im *importer) referred(n *node, p place) (shape, about) {
	a := im.annotations(n)
	target, name, why := im.deref(n)
	switch {
	case target == nil:
		im.note(n, p.label, p.todos, "%s", why)
		return scalar("json"), a
	case im.open[target]:
		im.note(n, p.label, p.todos, "the reference %s leads round in a circle", n.str("$ref"))
		return scalar("json"), a
	case im.isStruct(target), target.get("enum") != nil && im.isEnum(target):
		_, nullable := typesOf(target)
		a.nullable = a.nullable || nullable || target.get("nullable").isTrue()
		return shape{named: im.declare(target, name, p)}, a
	}
	im.open[target] = true
	s, b := im.shapeOf(target, p)
	delete(im.open, target)
	return s, a.or(b)
}

// alternative looks through oneOf, anyOf and allOf that stand for one schema: one of
// them or null. inner is nil where there is no one schema, which it notes.
func (im *importer) alternative(n *node, p place) (inner *node, nullable, ok bool) {
	for _, key := range []string{"oneOf", "anyOf", "allOf"} {
		v := n.get(key)
		if v == nil || v.kind != kindList || key == "allOf" && im.isStruct(n) && (len(v.items) > 1 || n.get("properties") != nil) {
			continue
		}
		var rest []*node
		for _, item := range v.items {
			if types, null := typesOf(item); null && len(types) == 0 && item.get("$ref") == nil {
				nullable = true
				continue
			}
			rest = append(rest, item)
		}
		if len(rest) == 1 && n.get("properties") == nil {
			return rest[0], nullable, true
		}
		im.note(v, p.label, p.todos, "%s of %d schemas", key, len(v.items))
		return nil, nullable, true
	}
	return nil, false, false
}

// typesOf are the types that a schema allows, null aside. Without the key they follow
// from the others.
func typesOf(n *node) (types []string, nullable bool) {
	add := func(t *node) {
		switch {
		case t.kind == kindNull, t.kind == kindString && t.text == "null":
			nullable = true
		case t.kind == kindString && !slices.Contains(types, t.text):
			types = append(types, t.text)
		}
	}
	switch t := n.get("type"); {
	case t == nil:
		for _, implied := range []struct{ key, typ string }{{"properties", "object"}, {"additionalProperties", "object"}, {"items", "array"}} {
			if n.get(implied.key) != nil {
				return []string{implied.typ}, false
			}
		}
	case t.kind == kindList:
		for _, item := range t.items {
			add(item)
		}
	default:
		add(t)
	}
	return types, nullable
}

func (im *importer) plain(n *node, types []string, p place) shape {
	if n.get("enum") != nil || n.get("const") != nil {
		return im.enum(n, p)
	}
	if len(types) > 1 {
		im.note(n, p.label, p.todos, "one of the types %s", strings.Join(types, ", "))
		return scalar("json")
	}
	if im.isStruct(n) {
		return shape{named: im.declare(n, p.name, p)}
	}
	if len(types) == 0 {
		return scalar("json")
	}
	switch types[0] {
	case "object":
		return im.mapping(n, p)
	case "array":
		return im.list(n, p)
	case "string":
		return im.stringType(n, p)
	case "integer":
		return im.integer(n, p)
	case "number":
		if f := n.str("format"); f == "decimal" {
			im.note(n, p.label, p.todos, "a decimal as a JSON number: a decimal here is a string")
		}
		return scalar("float64")
	case "boolean":
		return scalar("bool")
	}
	im.note(n, p.label, p.todos, "the type %s", types[0])
	return scalar("json")
}

// mapping is an object without properties of its own.
func (im *importer) mapping(n *node, p place) shape {
	values := n.get("additionalProperties")
	if values == nil || values.kind != kindMapping || len(values.entries) == 0 {
		return scalar("json")
	}
	return im.composite("map", values, p.inner("value"))
}

func (im *importer) list(n *node, p place) shape {
	items := n.get("items")
	if items == nil {
		return shape{scalar: "list", elem: &shape{scalar: "json"}}
	}
	if items.kind == kindList {
		im.note(items, p.label, p.todos, "items that are different by their place")
		return scalar("json")
	}
	return im.composite("list", items, p.inner("item"))
}

func (im *importer) composite(kind string, elem *node, p place) shape {
	s, a := im.shapeOf(elem, p)
	if a.nullable {
		im.note(elem, p.label, p.todos, "elements that may be null")
	}
	return shape{scalar: kind, elem: &s}
}

// leftovers notes what the keywords of a schema ask that nothing here can ask.
func (im *importer) leftovers(n *node, p place) {
	for _, e := range n.entries {
		switch e.key {
		case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
			"minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "minContains", "maxContains", "default", "discriminator":
			if e.val.kind == kindMapping || e.val.kind == kindList {
				im.note(e.val, p.label, p.todos, "%s", e.key)
			} else {
				im.note(e.val, p.label, p.todos, "%s: %s", e.key, e.val.text)
			}
		case "not", "if", "then", "else", "patternProperties", "dependentRequired", "dependentSchemas", "dependencies",
			"propertyNames", "unevaluatedProperties", "unevaluatedItems", "prefixItems", "additionalItems", "contains",
			"contentSchema", "contentMediaType", "$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor":
			im.note(e.val, p.label, p.todos, "%s", e.key)
		}
	}
}
