package export

// Editor is the schema of events.yaml itself, by which yaml-language-server completes and
// explains its keys. It is in draft-07, the newest that the language server knows all of.
func Editor() []byte {
	var definitions object
	for _, t := range editorTables() {
		definitions.set(t.name, t.schema())
	}
	fields := mapping(`^[a-z][a-z0-9_]{0,47}\??$`, object{
		{"description", "A field: its type, or a mapping with type, enum or fields. A question mark behind the name makes it optional."},
		{"anyOf", []any{ref("typeText"), ref("field")}},
	})
	definitions.set("fields", append(fields, member{"minProperties", 1}))
	definitions.set("typeText", object{{"anyOf", []any{
		object{{"enum", scalarNames()}},
		object{{"type", "string"}, {"pattern", `^ *([A-Z][A-Za-z0-9]*|(list|map) *<.+>) *$`}, {"description", "A type of types:, list<T> or map<T>."}},
	}}})
	definitions.set("duration", object{{"type", "string"}, {"pattern", patternOurDuration}})
	definitions.set("path", object{{"type", "string"}, {"pattern", `^[^/~\\]`}})
	definitions.set("enumValues", object{
		{"type", "array"}, {"minItems", 1}, {"uniqueItems", true},
		{"items", object{{"type", "string"}, {"pattern", `^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`}}},
	})
	root := fileTable().schema()
	o := object{{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "events.yaml of outboxgen"}}
	o = append(o, root...)
	o.set("definitions", definitions)
	return jsonFile(o)
}

// table is the keys of one kind of mapping in events.yaml.
type table struct {
	name     string
	keys     []key
	required []string
	oneOf    []string // exactly one of these keys must be there
}

// key is one of them: what it means, and what it takes.
type key struct {
	name, doc string
	value     object
}

func (t table) schema() object {
	var properties object
	for _, k := range t.keys {
		o := object{{"description", k.doc}}
		if k.value[0].key == "$ref" { // draft-07 passes over what stands beside it
			o.set("allOf", []any{k.value})
		} else {
			o = append(o, k.value...)
		}
		properties.set(k.name, o)
	}
	o := object{{"type", "object"}, {"properties", properties}, {"additionalProperties", false}}
	if t.required != nil {
		o.set("required", t.required)
	}
	if t.oneOf != nil {
		var choices []any
		for _, name := range t.oneOf {
			choices = append(choices, object{{"required", []string{name}}})
		}
		o.set("oneOf", choices)
	}
	return o
}

func ref(name string) object { return object{{"$ref", "#/definitions/" + name}} }

// mapping is a mapping of names of the user's to one kind of value. Behind patternProperties
// yaml-language-server would complete no value.
func mapping(names string, value object) object {
	return object{{"type", "object"}, {"propertyNames", object{{"pattern", names}}}, {"additionalProperties", value}}
}

func oneOf(values ...string) object { return object{{"enum", values}} }

func named(pattern string) object { return object{{"type", "string"}, {"pattern", pattern}} }

func listOrOne(item object) object {
	return object{{"anyOf", []any{item, object{{"type", "array"}, {"minItems", 1}, {"items", item}}}}}
}
