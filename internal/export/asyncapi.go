package export

import (
	"encoding/json"
	"fmt"

	"github.com/outboxgen/outboxgen/internal/sample"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// AsyncAPI describes the service in AsyncAPI 3.0
// (https://www.asyncapi.com/docs/reference/specification/v3.0.0): what it sends and what
// its consumers receive, on each broker as it would be there. Servers are not in it: they
// are not in events.yaml either.
func AsyncAPI(m *spec.Model) []byte {
	a := asyncAPI{model: m, schemas: shapes{refs: "#/components/schemas/", draft07: true}}
	a.nats()
	a.kafka()
	a.rabbitMQ()
	o := object{
		{"asyncapi", "3.0.0"},
		{"info", object{
			{"title", "Events of " + m.Service.Text},
			{"version", "1.0.0"},
			{"description", "The transactional outbox of " + m.Service.Text + ". Messages are CloudEvents 1.0 in binary mode. A service uses one of the brokers; the channels of the others say how it would look there."},
		}},
		{"defaultContentType", "application/json"},
		{"channels", a.channels},
		{"operations", a.operations},
		{"components", a.components()},
	}
	return yamlFile(o)
}

// asyncAPI collects the document. Names in it are unique since those of events and
// consumers have no underscore.
type asyncAPI struct {
	model      *spec.Model
	schemas    shapes
	channels   object
	operations object
}

// sent is a version of an event's payload.
type sent struct {
	event   *spec.Event
	version *spec.Version
}

func (s sent) name() string { return fmt.Sprintf("%s.v%d", s.event.Name.Text, s.version.Number) }

func versionsOf(events ...*spec.Event) []sent {
	var list []sent
	for _, e := range events {
		for _, v := range e.Versions {
			list = append(list, sent{e, v})
		}
	}
	return list
}

// channel adds a channel on which messages of the versions may be.
func (a *asyncAPI) channel(b broker, name, address string, versions []sent, more object) {
	var messages object
	for _, s := range versions {
		messages.set(s.name(), object{{"$ref", "#/components/messages/" + b.name + "." + s.name()}})
	}
	a.channels.set(name, append(object{{"address", address}, {"messages", messages}}, more...))
}

// operation adds what the service does on a channel. A version that is deprecated is
// received as long as any of its messages may wait, and sent no more.
func (a *asyncAPI) operation(name, action, channel, summary string, versions []sent, bindings object) {
	var messages []any
	for _, s := range versions {
		if action == "send" && s.version.Deprecated != "" {
			continue
		}
		messages = append(messages, object{{"$ref", "#/channels/" + channel + "/messages/" + s.name()}})
	}
	o := object{{"action", action}, {"channel", object{{"$ref", "#/channels/" + channel}}}}
	o.text("summary", summary)
	if bindings != nil {
		o.set("bindings", bindings)
	}
	o.set("messages", messages)
	a.operations.set(name, o)
}

func (a *asyncAPI) components() object {
	var messages, schemas object
	for _, s := range versionsOf(a.model.Events...) {
		for _, b := range brokers() {
			messages.set(b.name+"."+s.name(), a.message(b, s))
		}
		schemas.set(s.name(), a.payload(s))
	}
	for _, b := range brokers() {
		schemas.set("headers."+b.name, b.headers(a.model))
	}
	schemas = append(schemas, a.schemas.definitions()...)
	return object{
		{"messages", messages},
		{"schemas", schemas},
		{"correlationIds", object{{"trace", object{
			{"description", "W3C trace context, where the writer had one."},
			{"location", "$message.header#/traceparent"},
		}}}},
	}
}

func (a *asyncAPI) payload(s sent) object {
	var o object
	o.text("description", paragraphs(s.event.Doc, s.version.Doc))
	if reason := deprecation(s.event, s.version); reason != "" {
		o.set("deprecated", true)
		o.set("x-deprecated-reason", reason)
	}
	return append(o, a.schemas.payload(s.version.Fields, false)...)
}

func (a *asyncAPI) message(b broker, s sent) object {
	o := object{
		{"name", s.event.Name.Text},
		{"title", fmt.Sprintf("%s, version %d", s.event.Name.Text, s.version.Number)},
	}
	o.text("description", paragraphs(s.event.Doc, s.version.Doc))
	o.text("x-deprecated-reason", deprecation(s.event, s.version))
	o.set("contentType", "application/json")
	o.set("correlationId", object{{"$ref", "#/components/correlationIds/trace"}})
	o.set("headers", object{
		{"type", "object"},
		{"allOf", []any{object{{"$ref", "#/components/schemas/headers." + b.name}}}},
		{"properties", b.constants(a.model, s)},
	})
	o.set("payload", object{{"$ref", "#/components/schemas/" + s.name()}})
	if b.name == "kafka" {
		o.set("bindings", object{{"kafka", object{
			{"key", object{{"type", "string"}, {"description", "The aggregate's id."}}}, {"bindingVersion", "0.5.0"},
		}}})
	}
	if text, ok := sample.Payload(s.version); ok {
		o.set("examples", []any{object{{"payload", json.RawMessage(text)}}})
	}
	return o
}
