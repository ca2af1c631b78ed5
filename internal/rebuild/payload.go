package rebuild

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/outboxgen/outboxgen/internal/export"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// Schema is what payloads of a version are held against.
type Schema struct {
	version  *spec.Version
	compiled *jsonschema.Schema
}

// SchemaOf returns the schema of a version.
func SchemaOf(m *spec.Model, e *spec.Event, v *spec.Version) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(export.JSONSchema(m, e, v)))
	if err != nil {
		return nil, fmt.Errorf("the schema of %s: %w", e.Name.Text, err)
	}
	const url = "https://outboxgen.invalid/schema.json" // never fetched
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(url, doc); err != nil {
		return nil, fmt.Errorf("the schema of %s: %w", e.Name.Text, err)
	}
	compiled, err := c.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("the schema of %s: %w", e.Name.Text, err)
	}
	return &Schema{v, compiled}, nil
}

// Identity is what a payload says of its aggregate.
type Identity struct {
	ID      string
	Version int64
}

// Check says why a payload does not fit, by the places in it: no error has a value.
func (s *Schema) Check(payload []byte) (id Identity, err error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(payload))
	if err != nil {
		return id, errors.New("the payload is not JSON")
	}
	var problems []string
	if failed := new(jsonschema.ValidationError); errors.As(s.compiled.Validate(value), &failed) {
		problems = s.places(failed)
	}
	members, _ := value.(map[string]any)
	w := walk{}
	w.fields(s.version.Fields, members, "")
	problems = append(problems, w.problems...)
	if len(problems) > 0 {
		const most = 10
		slices.Sort(problems)
		problems = slices.Compact(problems)
		if n := len(problems); n > most {
			problems = append(problems[:most], fmt.Sprintf("and %d more", n-most))
		}
		return id, fmt.Errorf("the payload does not fit version %d: %s", s.version.Number, strings.Join(problems, "; "))
	}
	id.ID = fmt.Sprint(members[s.version.ID.Name.Text])
	id.Version, err = strconv.ParseInt(fmt.Sprint(members[s.version.AggregateVersion.Name.Text]), 10, 64)
	if err != nil {
		return id, fmt.Errorf("the payload does not fit: /%s is not written as an integer", s.version.AggregateVersion.Name.Text)
	}
	return id, nil
}

// places are where a payload is not as its schema wants it, with the schema's keyword.
func (s *Schema) places(e *jsonschema.ValidationError) (list []string) {
	for _, cause := range e.Causes {
		list = append(list, s.places(cause)...)
	}
	if len(e.Causes) > 0 {
		return list
	}
	place := s.place(e.InstanceLocation)
	switch keyword := e.ErrorKind.KeywordPath(); {
	case len(keyword) == 0:
		return []string{place + " does not fit"}
	case keyword[0] == "required":
		return []string{place + " lacks a required field"}
	default:
		return []string{place + " does not fit: " + strings.Join(keyword, "/")}
	}
}

// place is a place in a payload. A key of a map is the user's data, and is not shown.
func (s *Schema) place(path []string) string {
	out := ""
	fields, typ := s.version.Fields, (*spec.Type)(nil)
	for _, step := range path {
		shown := "*"
		switch {
		case typ != nil && typ.Kind == spec.KindList:
			typ, shown = typ.Elem, step
		case typ != nil && typ.Kind == spec.KindMap:
			typ = typ.Elem
		default:
			i := slices.IndexFunc(fields, func(f *spec.Field) bool { return f.Name.Text == step })
			if i < 0 {
				return out + "/*"
			}
			typ, shown = fields[i].Type, step
		}
		fields = nil
		if typ.Kind == spec.KindStruct {
			fields = typ.Named.Fields
		}
		out += "/" + shown
	}
	if out == "" {
		return "the payload"
	}
	return out
}

// walk finds what the schema leaves open for messages of other builds, and is a mistake in
// a payload that is written now: fields that nobody knows, values that no enum has, and null.
type walk struct{ problems []string }

func (w *walk) fields(fields []*spec.Field, members map[string]any, place string) {
	known := map[string]bool{}
	for _, f := range fields {
		name := f.Name.Text
		known[name] = true
		if v, is := members[name]; is {
			w.value(f.Type, v, place+"/"+name)
		} else if !f.Optional {
			w.problems = append(w.problems, place+"/"+name+" is missing")
		}
	}
	for name := range members {
		if !known[name] {
			w.problems = append(w.problems, fmt.Sprintf("%s has a field that is not in events.yaml", orPayload(place)))
		}
	}
}

func orPayload(place string) string {
	if place == "" {
		return "the payload"
	}
	return place
}

func (w *walk) value(t *spec.Type, v any, place string) {
	switch t.Kind {
	case spec.KindList:
		list, _ := v.([]any)
		for i, item := range list {
			w.value(t.Elem, item, place+"/"+strconv.Itoa(i))
		}
	case spec.KindMap:
		m, _ := v.(map[string]any)
		for _, item := range m {
			w.value(t.Elem, item, place+"/*")
		}
	case spec.KindStruct:
		if m, is := v.(map[string]any); is {
			w.fields(t.Named.Fields, m, place)
		}
	case spec.KindEnum:
		text, is := v.(string)
		if is && !slices.ContainsFunc(t.Named.Enum, func(e spec.EnumValue) bool { return e.Name.Text == text }) {
			w.problems = append(w.problems, place+" is no value of its enum")
		}
	case spec.KindInt32, spec.KindInt64:
		if n, is := v.(json.Number); is && strings.ContainsAny(n.String(), ".eE") {
			w.problems = append(w.problems, place+" is not written as an integer")
		}
	}
}
