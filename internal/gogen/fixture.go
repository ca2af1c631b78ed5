package gogen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// Limits of a sample, counted in values. Past the first, whatever may be absent
// or empty is; past the second the event is refused: types that hold each other
// twice over grow as a power of two.
const (
	enoughValues = 400
	mostValues   = 10_000
)

// sample writes a payload with a fixed value in every field, in the bytes in
// which generated code encodes it.
type sample struct {
	g    *generator
	b    strings.Builder
	path []string // the structs that the value stands in
	n    int

	foreign int // how many structs with a Go type of the user's own the value stands in

	members map[string]string // of the payload itself
}

// fixture is the sample payload of a version, the locked one where it has been
// published: the encoded value of each field that is there, by name.
func (g *generator) fixture(e *spec.Event, v *spec.Version) map[string]string {
	s := sample{g: g, members: map[string]string{}}
	s.object(v.GoName, v.Fields)
	if s.n > mostValues {
		g.problems.Add(diag.Diagnostic{
			Pos:     e.Name.Pos,
			Rule:    "payload-too-large",
			Message: fmt.Sprintf("a payload of %s always has more than %d values", e.Name.Text, mostValues),
			Hint:    "make parts of it optional, or lists",
		})
	}
	return g.published(e, v, s.members)
}

// encoded is a payload of these values, as generated code encodes it.
func encoded(v *spec.Version, values map[string]string) string {
	var members []string
	for _, f := range v.Fields {
		if value, ok := values[f.Name.Text]; ok {
			members = append(members, `"`+f.Name.Text+`":`+value)
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (s *sample) object(goName string, fields []*spec.Field) {
	s.path = append(s.path, goName)
	s.b.WriteByte('{')
	first := true
	for _, f := range fields {
		if s.n > mostValues {
			break
		}
		if f.Optional && s.stop(f.Type) {
			continue
		}
		if !first {
			s.b.WriteByte(',')
		}
		first = false
		s.b.WriteString(`"` + f.Name.Text + `":`)
		start := s.b.Len()
		s.value(f.Name.Text, f.Type)
		if len(s.path) == 1 {
			s.members[f.Name.Text] = s.b.String()[start:]
		}
	}
	s.b.WriteByte('}')
	s.path = s.path[:len(s.path)-1]
}

// stop reports whether a value is left out: the sample is large enough, or the
// value would hold another of a struct that it stands in.
func (s *sample) stop(t *spec.Type) bool {
	if s.n > enoughValues {
		return true
	}
	if t.Elem != nil {
		return false // an empty one will do
	}
	return t.Kind == spec.KindStruct && slices.Contains(s.path, t.Named.GoName)
}

func (s *sample) value(name string, t *spec.Type) {
	s.n++
	switch t.Kind {
	case spec.KindStruct:
		if t.Go != nil {
			s.foreign++
			defer func() { s.foreign-- }()
		}
		s.object(t.Named.GoName, t.Named.Fields)
	case spec.KindEnum:
		s.b.WriteString(`"` + t.Named.Enum[0].Name.Text + `"`)
	case spec.KindList:
		s.b.WriteByte('[')
		if !s.stop(t.Elem) {
			s.value(name, t.Elem)
		}
		s.b.WriteByte(']')
	case spec.KindMap:
		s.b.WriteByte('{')
		if !s.stop(t.Elem) {
			s.b.WriteString(`"key":`)
			s.value(name, t.Elem)
		}
		s.b.WriteByte('}')
	default:
		s.b.WriteString(s.scalar(name, t))
	}
}

// scalar is a value that a Go type of the user's own should write as it read
// it, too: a decimal without a trailing zero, which many of them drop. A locked one has
// none either, so that such a type can come later.
func (s *sample) scalar(name string, t *spec.Type) string {
	switch t.Kind {
	case spec.KindString:
		return `"` + name + `"`
	case spec.KindBool:
		return "true"
	case spec.KindInt32:
		return "42"
	case spec.KindInt64:
		return "9007199254740993" // not a float64
	case spec.KindFloat64:
		return "0.5"
	case spec.KindDecimal:
		if t.Go != nil || s.foreign > 0 || s.g.locking {
			return `"12.5"`
		}
		return `"12.50"`
	case spec.KindUUID:
		return `"019b76da-a800-7000-8000-000000000001"`
	case spec.KindTimestamp:
		return `"2026-01-02T03:04:05.000006Z"`
	case spec.KindDate:
		return `"2026-01-02"`
	case spec.KindDuration:
		return `"1h30m0.5s"`
	case spec.KindBytes:
		return `"AQID"`
	default: // json
		return `{"key":["value",1]}`
	}
}
