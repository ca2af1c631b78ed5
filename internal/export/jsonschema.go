package export

import (
	"fmt"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// JSONSchema is the schema of a version's payload, in JSON Schema 2020-12
// (https://json-schema.org/draft/2020-12).
func JSONSchema(m *spec.Model, e *spec.Event, v *spec.Version) []byte {
	s := shapes{refs: "#/$defs/"}
	o := object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"$id", m.Exports.SchemaBase.Text + v.SchemaFile(e)},
		{"title", fmt.Sprintf("%s, version %d", e.Name.Text, v.Number)},
	}
	o.text("description", paragraphs(e.Doc, v.Doc))
	if reason := deprecation(e, v); reason != "" {
		o.set("deprecated", true)
		o.set("x-deprecated-reason", reason)
	}
	o = append(o, s.payload(v.Fields, false)...)
	if defs := s.definitions(); len(defs) > 0 {
		o.set("$defs", defs)
	}
	return jsonFile(o)
}

// deprecation is why nobody should write a version, the event's reason before its own.
func deprecation(e *spec.Event, v *spec.Version) string {
	if e.Deprecated != "" {
		return e.Deprecated
	}
	return v.Deprecated
}

func paragraphs(texts ...string) string {
	whole := ""
	for _, text := range texts {
		if whole != "" && text != "" {
			whole += "\n\n"
		}
		whole += text
	}
	return whole
}
