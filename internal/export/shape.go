package export

import (
	"encoding/json"
	"slices"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// shapes makes JSON Schemas of types, in one of two dialects: 2020-12, and the draft-07
// that AsyncAPI's own schemas are made of.
type shapes struct {
	refs    string // before a named type's name: "#/$defs/"
	draft07 bool   // whatever stands beside $ref is passed over

	used []*spec.Named // the named types that were referred to, in the order of their first use
}

// What generated code writes, to the letter (runtime/outbox/wiretypes.go).
const (
	patternDecimal   = `^-?[0-9]{1,128}(\.[0-9]{1,128})?$`
	patternTimestamp = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$`
	patternDate      = `^[0-9]{4}-[0-9]{2}-[0-9]{2}$`
	patternUUID      = `^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`
	patternDuration  = `^-?([0-9]+h)?([0-9]+m)?[0-9]+(\.[0-9]+)?(ns|µs|ms|s)$`
)

// payload is the schema of an object with fields. New optional fields may come within a
// version, so that unknown ones are left open.
func (s *shapes) payload(fields []*spec.Field, foreign bool) object {
	var properties object
	var required []string
	for _, f := range fields {
		properties.set(f.Name.Text, s.field(f, foreign))
		if !f.Optional {
			required = append(required, f.Name.Text)
		}
	}
	o := object{{"type", "object"}, {"properties", properties}}
	if required != nil {
		o.set("required", required)
	}
	return o
}

func (s *shapes) field(f *spec.Field, foreign bool) object {
	o := s.shape(f.Type, foreign)
	var notes object
	notes.text("description", f.Doc)
	if f.Deprecated != "" {
		notes.set("deprecated", true)
		notes.text("x-deprecated-reason", f.Deprecated)
	}
	if f.PII {
		notes.set("x-pii", true)
	}
	if !f.Optional && f.Type.Kind == spec.KindJSON {
		o.set("not", object{{"type", "null"}}) // null is a key that is missing
	}
	if s.draft07 && len(notes) > 0 && o[0].key == "$ref" {
		o = object{{"allOf", []any{o}}}
	}
	return append(o, notes...)
}

// shape is the schema of a type. Where a Go type of somebody else's writes the value
// (foreign), its form is only what any reader of ours takes.
func (s *shapes) shape(t *spec.Type, foreign bool) object {
	switch {
	case t.Named != nil && !t.Named.Inline:
		if !slices.Contains(s.used, t.Named) {
			s.used = append(s.used, t.Named)
		}
		return object{{"$ref", s.refs + t.Named.Name.Text}}
	case t.Named != nil:
		return s.named(t.Named, foreign)
	case t.Kind == spec.KindList:
		return object{{"type", "array"}, {"items", s.shape(t.Elem, foreign)}}
	case t.Kind == spec.KindMap:
		return object{{"type", "object"}, {"additionalProperties", s.shape(t.Elem, foreign)}}
	}
	return scalarShape(t.Kind, foreign || t.Go != nil)
}

func (s *shapes) named(n *spec.Named, foreign bool) object {
	if n.Enum == nil {
		return s.payload(n.Fields, foreign || n.Go != nil)
	}
	values := make([]string, len(n.Enum))
	for i, v := range n.Enum {
		values[i] = v.Name.Text
	}
	// Open, as our own readers are: a value may be added within a version, and a message
	// with it must pass through whoever validates by an older copy. The known values
	// stand where tools find them.
	return object{{"type", "string"}, {"anyOf", []any{object{{"enum", values}}, object{{"type", "string"}}}}}
}

// definitions are the schemas of the named types in use, those that they use among them.
func (s *shapes) definitions() object {
	var defs object
	for i := 0; i < len(s.used); i++ { // grows on the way
		n := s.used[i]
		var o object
		o.text("description", n.Doc)
		defs.set(n.Name.Text, append(o, s.named(n, false)...))
	}
	return defs
}

func scalarShape(kind spec.Kind, foreign bool) object {
	text := func(format, pattern string) object {
		o := object{{"type", "string"}}
		o.text("format", format)
		if !foreign {
			o.text("pattern", pattern)
		}
		return o
	}
	bounded := func(least, most string) object {
		return object{{"type", "integer"}, {"minimum", json.RawMessage(least)}, {"maximum", json.RawMessage(most)}}
	}
	switch kind {
	case spec.KindString:
		return text("", "")
	case spec.KindBool:
		return object{{"type", "boolean"}}
	case spec.KindInt32:
		return bounded("-2147483648", "2147483647")
	case spec.KindInt64:
		return bounded("-9223372036854775808", "9223372036854775807")
	case spec.KindFloat64:
		return object{{"type", "number"}}
	case spec.KindDecimal:
		return object{{"type", "string"}, {"pattern", patternDecimal}} // whoever writes it
	case spec.KindUUID:
		return text("uuid", patternUUID)
	case spec.KindTimestamp:
		return text("date-time", patternTimestamp)
	case spec.KindDate:
		return text("date", patternDate)
	case spec.KindDuration:
		return text("", patternDuration)
	case spec.KindBytes:
		return object{{"type", "string"}, {"contentEncoding", "base64"}}
	}
	return object{} // json: anything
}
