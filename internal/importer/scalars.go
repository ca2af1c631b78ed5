package importer

import (
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/spec"
)

func (im *importer) stringType(n *node, p place) shape {
	if e := n.str("contentEncoding"); strings.EqualFold(e, "base64") {
		return scalar("bytes")
	}
	switch f := n.str("format"); f {
	case "":
		return scalar("string")
	case "uuid":
		return scalar("uuid")
	case "date-time":
		return scalar("timestamp")
	case "date":
		return scalar("date")
	case "decimal":
		return scalar("decimal")
	case "byte":
		return scalar("bytes")
	case "duration":
		im.note(n, p.label, p.todos, "a duration by ISO 8601: a duration here is written as in Go")
		return scalar("string")
	default:
		im.note(n, p.label, p.todos, "format: %s", f)
		return scalar("string")
	}
}

func (im *importer) integer(n *node, p place) shape {
	switch f := n.str("format"); f {
	case "", "int64":
	case "int32":
		return scalar("int32")
	default:
		im.note(n, p.label, p.todos, "format: %s", f)
	}
	return scalar("int64")
}

// isEnum reports an enum of texts that can be values here.
func (im *importer) isEnum(n *node) bool {
	values := enumValues(n)
	return len(values) > 0 && !slices.ContainsFunc(values, func(v *node) bool { return v.kind != kindString || !spec.IsEnumValue(v.text) })
}

// enumValues are the values of enum or const, null aside.
func enumValues(n *node) []*node {
	if v := n.get("enum"); v != nil {
		return slices.DeleteFunc(slices.Clone(v.items), func(v *node) bool { return v.kind == kindNull })
	}
	if v := n.get("const"); v != nil {
		return []*node{v}
	}
	return nil
}

func (im *importer) enum(n *node, p place) shape {
	if im.isEnum(n) {
		if !p.field {
			return shape{named: im.declare(n, p.name, p)}
		}
		return shape{enum: texts(enumValues(n))}
	}
	values := enumValues(n)
	im.note(n, p.label, p.todos, "one of the values %s", strings.Join(texts(values), ", "))
	if len(values) == 0 {
		return scalar("json")
	}
	for _, v := range values[1:] {
		if v.kind != values[0].kind {
			return scalar("json")
		}
	}
	switch {
	case values[0].kind == kindString:
		return scalar("string")
	case values[0].kind == kindBool:
		return scalar("bool")
	case values[0].kind == kindNumber && !slices.ContainsFunc(values, func(v *node) bool { return strings.ContainsAny(v.text, ".eE") }):
		return scalar("int64")
	case values[0].kind == kindNumber:
		return scalar("float64")
	}
	return scalar("json")
}

func texts(values []*node) []string {
	var out []string
	for _, v := range values {
		if !slices.Contains(out, v.text) {
			out = append(out, v.text)
		}
	}
	return out
}
