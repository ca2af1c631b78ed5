package export_test

import (
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/outboxgen/outboxgen/internal/export"
	"github.com/outboxgen/outboxgen/internal/sample"
)

// Every reference leads somewhere, and every operation's message is one of its channel's.
// The official parser has the last word: make validate-exports.
func TestAsyncAPIReferences(t *testing.T) {
	for _, file := range goodFiles(t) {
		doc := readAsyncAPI(t, export.AsyncAPI(load(t, file)))
		refs := 0
		eachRef(doc, func(ref string) {
			refs++
			if lookup(doc, ref) == nil {
				t.Errorf("%s: %s leads nowhere", file, ref)
			}
		})
		if refs < 10 {
			t.Errorf("%s: only %d references", file, refs)
		}
		for name, op := range doc["operations"].(map[string]any) {
			channel := op.(map[string]any)["channel"].(map[string]any)["$ref"].(string)
			for _, m := range op.(map[string]any)["messages"].([]any) {
				if ref := m.(map[string]any)["$ref"].(string); !strings.HasPrefix(ref, channel+"/messages/") {
					t.Errorf("%s: %s of another channel: %s", file, name, ref)
				}
			}
		}
	}
}

// A payload's schema in AsyncAPI takes the fixture as well.
func TestAsyncAPIPayloads(t *testing.T) {
	for _, file := range goodFiles(t) {
		model := load(t, file)
		doc := readAsyncAPI(t, export.AsyncAPI(model))
		for _, e := range model.Events {
			for _, v := range e.Versions {
				name := strings.TrimSuffix(v.SchemaFile(e), ".schema.json")
				root := map[string]any{
					"$schema": "http://json-schema.org/draft-07/schema#", "components": doc["components"],
					"allOf": []any{map[string]any{"$ref": "#/components/schemas/" + name}},
				}
				schema := compileDoc(t, root)
				text, _ := sample.Payload(v)
				if err := schema.Validate(readJSON(t, []byte(text))); err != nil {
					t.Errorf("%s: %s: %v", file, name, err)
				}
				if schema.Validate(map[string]any{}) == nil {
					t.Errorf("%s: %s takes an empty payload", file, name)
				}
			}
		}
	}
}

// A version that is deprecated is still received, and no longer sent.
func TestAsyncAPIDeprecatedVersion(t *testing.T) {
	doc := readAsyncAPI(t, export.AsyncAPI(parse(t, `version: 1
service: shop
go: { package: shopevents, out: gen }
exports: { out: gen/exports, schema_base: https://schemas.example.com/shop/ }
events:
  a.b:
    aggregate: { type: thing, id: id, version: number }
    versions:
      1: { deprecated: old, fields: { id: string, number: int32 } }
      2: { fields: { id: string, number: int32 } }
consumers:
  c: { handles: [a.b] }
`)))
	for name, want := range map[string]int{"nats_send.a.b": 1, "kafka_send.shop": 1, "rabbitmq_send.a.b": 1, "nats_receive.c_a.b": 2, "kafka_receive.c_shop": 2, "rabbitmq_receive.c": 2} {
		op, _ := lookup(doc, "#/operations/"+name).(map[string]any)
		if messages, _ := op["messages"].([]any); len(messages) != want {
			t.Errorf("%s has %d messages, want %d", name, len(messages), want)
		}
	}
	for ref, want := range map[string]any{
		"#/components/messages/nats.a.b.v2/headers/properties/ce-dataschema/const":              "https://schemas.example.com/shop/a.b.v2.schema.json",
		"#/components/messages/kafka.a.b.v1/headers/properties/ce_schemaversion/const":          "1",
		"#/components/messages/rabbitmq.a.b.v1/headers/properties/cloudEvents:type/const":       "a.b",
		"#/components/schemas/headers.kafka/properties/content-type/const":                      "application/json",
		"#/channels/rabbitmq_queue.c/bindings/amqp/queue/name":                                  "shop.c",
		"#/channels/rabbitmq.a.b/bindings/amqp/exchange/name":                                   "shop",
		"#/channels/kafka.shop/address":                                                         "shop",
		"#/channels/nats.a.b/address":                                                           "shop.a.b",
		"#/components/messages/rabbitmq.a.b.v2/headers/properties/cloudEvents:dataschema/const": "https://schemas.example.com/shop/a.b.v2.schema.json",
	} {
		if got := lookup(doc, ref); got != want {
			t.Errorf("%s is %v, want %v", ref, got, want)
		}
	}
}

func readAsyncAPI(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	return plain(t, &doc).(map[string]any)
}

func eachRef(v any, visit func(string)) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if ref, ok := value.(string); ok && key == "$ref" {
				visit(ref)
			}
			eachRef(value, visit)
		}
	case []any:
		for _, item := range v {
			eachRef(item, visit)
		}
	}
}

// lookup follows a JSON pointer.
func lookup(doc any, ref string) any {
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		m, ok := doc.(map[string]any)
		if !ok {
			return nil
		}
		doc = m[part]
	}
	return doc
}

// In draft-07 whatever stands beside a $ref is passed over.
func TestAsyncAPIKeepsNotesBesideReferences(t *testing.T) {
	doc := readAsyncAPI(t, export.AsyncAPI(parse(t, hostile)))
	price, _ := lookup(doc, "#/components/schemas/a.b.v1/properties/price").(map[string]any)
	if price["$ref"] != nil || price["description"] != "<i>x</i> | y" || len(price["allOf"].([]any)) != 1 {
		t.Errorf("price is %v", price)
	}
}
