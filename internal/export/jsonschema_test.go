package export_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/outboxgen/outboxgen/internal/export"
	"github.com/outboxgen/outboxgen/internal/sample"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// Every schema is one to a public validator, takes the fixture that generated code is
// tested by, and refuses it without a required field or with a value of another type.
func TestJSONSchemaTakesWhatWeWrite(t *testing.T) {
	for _, file := range goodFiles(t) {
		model := load(t, file)
		for _, e := range model.Events {
			for _, v := range e.Versions {
				t.Run(file+" "+v.SchemaFile(e), func(t *testing.T) { checkSchema(t, model, e, v) })
			}
		}
	}
}

func checkSchema(t *testing.T, m *spec.Model, e *spec.Event, v *spec.Version) {
	data := export.JSONSchema(m, e, v)
	id := readJSON(t, data).(map[string]any)["$id"]
	if want := m.Exports.SchemaBase.Text + v.SchemaFile(e); id != want {
		t.Errorf("$id is %v, want %s", id, want)
	}
	schema := compile(t, data)
	text, ok := sample.Payload(v)
	if !ok {
		t.Fatal("no sample")
	}
	good := readJSON(t, []byte(text)).(map[string]any)
	if err := schema.Validate(good); err != nil {
		t.Errorf("the fixture does not validate: %v\n%s", err, text)
	}
	with := maps.Clone(good)
	with["comes_later"] = "an optional field of a newer build"
	if err := schema.Validate(with); err != nil {
		t.Errorf("a field that came later is refused: %v", err)
	}
	for _, f := range v.Fields {
		name := f.Name.Text
		without := maps.Clone(good)
		delete(without, name)
		if err := schema.Validate(without); (err == nil) != f.Optional {
			t.Errorf("without %s: %v", name, err)
		}
		if f.Type.Kind == spec.KindJSON {
			continue
		}
		wrong := maps.Clone(good)
		wrong[name] = map[string]any{"wrong": []any{true}}
		if f.Type.Kind == spec.KindStruct || f.Type.Kind == spec.KindMap {
			wrong[name] = "wrong"
		}
		if schema.Validate(wrong) == nil {
			t.Errorf("%s takes a value of another type", name)
		}
	}
}

// What single types take and refuse.
func TestJSONSchemaOfTypes(t *testing.T) {
	model := parse(t, `version: 1
service: shop
go: { package: shopevents, out: gen }
types:
  Grade: { enum: [low, high] }
events:
  all.types:
    aggregate: { type: thing, id: id, version: number }
    fields:
      id: string
      number: int32
      big?: int64
      amount?: decimal
      uid?: uuid
      at?: timestamp
      day?: date
      took?: duration
      raw?: bytes
      any: json
      grade?: Grade
      inline?: { enum: [a, b] }
      list?: list<int32>
      map?: map<bool>
`)
	e := model.Events[0]
	schema := compile(t, export.JSONSchema(model, e, e.Newest()))
	for field, values := range map[string]struct{ good, bad []string }{
		"number": {[]string{"2147483647", "-2147483648"}, []string{"2147483648", "1.5", `"1"`, "null"}},
		"big":    {[]string{"9223372036854775807"}, []string{"9223372036854775808", "-9223372036854775809"}},
		"amount": {[]string{`"12.50"`, `"-0.001"`}, []string{"12.5", `"1e5"`, `"1."`, `""`}},
		"uid":    {[]string{`"019b76da-a800-7000-8000-000000000001"`}, []string{`"019b76daa80070008000000000000001"`, `"x"`}},
		"at":     {[]string{`"2026-01-02T03:04:05.000006Z"`}, []string{`"2026-01-02T03:04:05Z"`, `"2026-01-02T03:04:05.000006+01:00"`, `"2026-13-02T03:04:05.000006Z"`}},
		"day":    {[]string{`"2026-01-02"`}, []string{`"2026-02-30"`, `"02.01.2026"`}},
		"took":   {[]string{`"1h30m0.5s"`, `"0s"`, `"-250ms"`, `"1.5µs"`}, []string{`"90"`, `"PT1H"`, "90"}},
		"raw":    {[]string{`"AQID"`, `""`}, []string{"1"}},
		"any":    {[]string{"0", "[]", `{"a":null}`}, []string{"null"}},
		"grade":  {[]string{`"low"`, `"added_later"`}, []string{"1"}},
		"inline": {[]string{`"a"`, `"added_later"`}, []string{"[]"}},
		"list":   {[]string{"[]", "[1,2]"}, []string{`["1"]`, "null"}},
		"map":    {[]string{"{}", `{"k":true}`}, []string{`{"k":1}`, "[]"}},
	} {
		for _, v := range values.good {
			if err := schema.Validate(payloadWith(t, field, v)); err != nil {
				t.Errorf("%s refuses %s: %v", field, v, err)
			}
		}
		for _, v := range values.bad {
			if schema.Validate(payloadWith(t, field, v)) == nil {
				t.Errorf("%s takes %s", field, v)
			}
		}
	}
}

func payloadWith(t *testing.T, field, value string) any {
	t.Helper()
	payload := map[string]json.RawMessage{"id": json.RawMessage(`"x"`), "number": json.RawMessage("1"), "any": json.RawMessage("1")}
	payload[field] = json.RawMessage(value)
	data, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	return readJSON(t, data)
}

// What a reader of the schema is told of a field that is private or on its way out.
func TestJSONSchemaNotes(t *testing.T) {
	model := load(t, "../spec/testdata/good/every-shape/events.yaml")
	e := model.Events[0]
	doc := readJSON(t, export.JSONSchema(model, e, e.Newest())).(map[string]any)
	y := doc["properties"].(map[string]any)["y"].(map[string]any)
	if y["x-pii"] != true || y["deprecated"] != true || y["x-deprecated-reason"] != "no longer sent" || y["description"] != "quoted: text, with a comma" {
		t.Errorf("y is %v", y)
	}
	if doc["deprecated"] != true || doc["x-deprecated-reason"] != e.Deprecated {
		t.Errorf("the event's deprecation is missing: %v", doc["deprecated"])
	}
}
