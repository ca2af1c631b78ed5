package cloudevents

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/outboxgen/outboxgen/internal/export"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// The headers that our AsyncAPI promises are those that are on each broker, and a message
// of another type, or without an attribute, doesn't pass for one.
func TestAsyncAPIHeadersAreOnTheWire(t *testing.T) {
	const base = "https://schemas.example.com/orders/"
	model, problems := spec.Parse("events.yaml", fmt.Appendf(nil, `version: 1
service: %s
go: { package: orderevents, out: gen }
exports: { out: gen/exports, schema_base: %s }
events:
  %s:
    aggregate: { type: order, id: order_id, version: order_version }
    fields: { order_id: string, order_version: int64 }
`, brokersuite.Source, base, brokersuite.TypeA))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(export.AsyncAPI(model), &doc); err != nil {
		t.Fatal(err)
	}
	version := brokersuite.TypeA + ".v1"
	for broker, c := range map[string]carrier{"nats": natsCarrier, "kafka": kafkaCarrier, "rabbitmq": rabbitCarrier} {
		t.Run(broker, func(t *testing.T) {
			t.Parallel()
			schema := headerSchema(t, doc, broker+"."+version)
			sent := brokersuite.Event("42", 7)
			sent.DataSchema = base + version + ".schema.json"
			sent.Headers = map[string]string{"traceparent": traceParent, "tracestate": traceState}
			headers := map[string]any{}
			for name, value := range c.send(t, sent).headers {
				headers[name] = value
			}
			if err := schema.Validate(headers); err != nil {
				t.Errorf("%v\n%v", err, headers)
			}
			prefix := c.names.prefix
			for _, name := range []string{"specversion", "id", "source", "type", "time", "aggregatetype", "aggregateversion", "schemaversion"} {
				value := headers[prefix+name]
				delete(headers, prefix+name)
				if schema.Validate(headers) == nil {
					t.Errorf("taken without %s", name)
				}
				headers[prefix+name] = value
			}
			headers[prefix+"dataschema"] = base + "other.v1.schema.json"
			if schema.Validate(headers) == nil {
				t.Error("taken with the schema of another event")
			}
		})
	}
}

func headerSchema(t *testing.T, doc map[string]any, message string) *jsonschema.Schema {
	t.Helper()
	var text bytes.Buffer
	text.WriteString(`{"$schema": "http://json-schema.org/draft-07/schema#", "allOf": [{"$ref": "#/components/messages/` + message + `/headers"}]}`)
	root, err := jsonschema.UnmarshalJSON(&text)
	if err != nil {
		t.Fatal(err)
	}
	root.(map[string]any)["components"] = doc["components"]
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("https://test.example/asyncapi", root); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("https://test.example/asyncapi")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}
