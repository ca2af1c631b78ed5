// Package sample makes an example of a payload: the fixture that tests of generated code
// read and write, and what the catalogue shows.
package sample

import (
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// Limits of a sample, counted in values. Past the first, whatever may be absent
// or empty is; past the second it is cut off: types that hold each other twice over grow
// as a power of two.
const (
	enoughValues = 400
	MostValues   = 10_000
)

// Payload is a payload of a version with a fixed value in every field, in the bytes in
// which generated code encodes it. It is false, and the text no JSON, when the payload
// always has more than [MostValues] values.
func Payload(v *spec.Version) (text string, ok bool) {
	members, ok := Members(v)
	return Encode(v, members), ok
}

// Members are the values of Payload by their fields' names.
func Members(v *spec.Version) (members map[string]string, ok bool) {
	s := sample{members: map[string]string{}}
	s.object(v.GoName, v.Fields)
	return s.members, s.n <= MostValues
}

// Encode is a payload of these values, as generated code encodes it.
func Encode(v *spec.Version, members map[string]string) string {
	var parts []string
	for _, f := range v.Fields {
		if value, ok := members[f.Name.Text]; ok {
			parts = append(parts, `"`+f.Name.Text+`":`+value)
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// sample writes one.
type sample struct {
	b    strings.Builder
	path []string // the structs that the value stands in
	n    int

	members map[string]string // of the payload itself
}

func (s *sample) object(goName string, fields []*spec.Field) {
	s.path = append(s.path, goName)
	s.b.WriteByte('{')
	first := true
	for _, f := range fields {
		if s.n > MostValues {
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

// scalar is a value that every Go type writes as it read it, for a type of the user's own
// may come when the value is locked: a decimal without a trailing zero, which many drop.
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
		return `"12.5"`
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
