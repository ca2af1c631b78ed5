package gogen

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/sample"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// Fixtures are the payloads to lock, one a version: those of the last lock, with what
// has come to their fields since. Of in, the model and the last lock count.
func Fixtures(in Input) (map[*spec.Version]string, diag.List) {
	g := newGenerator(in)
	fixtures := map[*spec.Version]string{}
	for _, e := range in.Model.Events {
		for _, v := range e.Versions {
			fixtures[v] = sample.Encode(v, g.fixture(e, v))
		}
	}
	return fixtures, g.problems
}

// published are the values of a version's locked fixture, if it has one, with those of
// today's sample for fields that came after the lock.
func (g *generator) published(e *spec.Event, v *spec.Version, today map[string]string) map[string]string {
	if g.locked == nil {
		return today
	}
	for _, le := range g.locked.Events {
		for _, lv := range le.Versions {
			if le.Name.Text == e.Name.Text && lv.Number == v.Number {
				return lockedValues(v.Fields, lv.Fixture, today)
			}
		}
	}
	return today
}

func lockedValues(fields []*spec.Field, fixture string, today map[string]string) map[string]string {
	var was map[string]json.RawMessage
	if json.Unmarshal([]byte(fixture), &was) != nil { // none in the lock
		return today
	}
	values := map[string]string{}
	for _, f := range fields {
		name := f.Name.Text
		if locked, ok := was[name]; ok {
			values[name] = string(lockedValue(f.Type, locked, json.RawMessage(today[name])))
		} else if today, ok := today[name]; ok {
			values[name] = today
		}
	}
	return values
}

// lockedObject merges two objects. A locked value that isn't what the fields say stays
// as it is: the generated test will fail on it, and say so.
func lockedObject(fields []*spec.Field, locked, today json.RawMessage) json.RawMessage {
	var was, is map[string]json.RawMessage
	if json.Unmarshal(locked, &was) != nil || was == nil {
		return locked
	}
	_ = json.Unmarshal(today, &is) // ours; empty where there is none for this object
	var parts []string
	for _, f := range fields {
		name := f.Name.Text
		value, ok := was[name]
		if ok {
			value = lockedValue(f.Type, value, is[name])
		} else if value, ok = is[name]; !ok {
			continue
		}
		delete(was, name)
		parts = append(parts, `"`+name+`":`+string(value))
	}
	for _, name := range slices.Sorted(maps.Keys(was)) { // of no field: they show in the test
		parts = append(parts, `"`+name+`":`+string(was[name]))
	}
	return json.RawMessage("{" + strings.Join(parts, ",") + "}")
}

func lockedValue(t *spec.Type, locked, today json.RawMessage) json.RawMessage {
	switch t.Kind {
	case spec.KindStruct:
		return lockedObject(t.Named.Fields, locked, today)
	case spec.KindList:
		var was, is []json.RawMessage
		if json.Unmarshal(locked, &was) != nil || was == nil {
			return locked
		}
		_ = json.Unmarshal(today, &is)
		for i := range was {
			var one json.RawMessage
			if i < len(is) {
				one = is[i]
			}
			was[i] = lockedValue(t.Elem, was[i], one)
		}
		return slices.Concat([]byte("["), bytes.Join(rawBytes(was), []byte(",")), []byte("]"))
	case spec.KindMap:
		var was, is map[string]json.RawMessage
		if json.Unmarshal(locked, &was) != nil || was == nil {
			return locked
		}
		_ = json.Unmarshal(today, &is)
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(was)) { // as Go encodes a map
			name, _ := json.Marshal(key) // a string: never fails
			parts = append(parts, string(name)+":"+string(lockedValue(t.Elem, was[key], is[key])))
		}
		return json.RawMessage("{" + strings.Join(parts, ",") + "}")
	default:
		return locked
	}
}

func rawBytes(raw []json.RawMessage) [][]byte {
	out := make([][]byte, len(raw))
	for i, r := range raw {
		out[i] = r
	}
	return out
}
