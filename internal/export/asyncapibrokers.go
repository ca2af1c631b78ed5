package export

import (
	"slices"
	"strconv"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// broker is how CloudEvents attributes are named there (runtime/broker/*, wire.go).
type broker struct {
	name, prefix string
	contentType  string // header of the data's type; "" where it is no header
	note         string
}

func brokers() []broker {
	return []broker{
		{"nats", "ce-", "ce-datacontenttype", "Headers of the CloudEvents binding for NATS; their values are percent-encoded."},
		{"kafka", "ce_", "content-type", "Headers of the CloudEvents binding for Kafka."},
		{"rabbitmq", "cloudEvents:", "", "Headers of the CloudEvents binding for AMQP; the data's type is the property content-type."},
	}
}

// headers are those of every message.
func (b broker) headers(m *spec.Model) object {
	attribute := func(more ...member) object { return append(object{{"type", "string"}}, more...) }
	properties := object{
		{b.prefix + "specversion", attribute(member{"const", "1.0"})},
		{b.prefix + "id", attribute(member{"format", "uuid"}, member{"description", "The event's id, the same in every repeat."})},
		{b.prefix + "source", attribute(member{"const", m.Service.Text})},
		{b.prefix + "type", attribute()},
		{b.prefix + "subject", attribute(member{"description", "The aggregate's id."})},
		{b.prefix + "time", attribute(member{"format", "date-time"}, member{"pattern", patternTimestamp})},
		{b.prefix + "aggregatetype", attribute()},
		{b.prefix + "aggregateversion", attribute(member{"pattern", "^-?[0-9]+$"}, member{"description", "The version of the business fact."})},
		{b.prefix + "schemaversion", attribute(member{"pattern", "^[0-9]+$"}, member{"description", "The version of the payload."})},
	}
	required := []string{"specversion", "id", "source", "type", "time", "aggregatetype", "aggregateversion", "schemaversion"}
	for i, name := range required {
		required[i] = b.prefix + name
	}
	if b.contentType != "" {
		properties.set(b.contentType, attribute(member{"const", "application/json"}))
		required = append(required, b.contentType)
	}
	if m.Exports.SchemaBase.Text != "" {
		properties.set(b.prefix+"dataschema", attribute(member{"format", "uri"}))
	}
	properties.set(b.prefix+"repeatcause", attribute(member{"description", "Why the message may be a repeat, for metrics; usually absent."}))
	for _, name := range []string{b.prefix + "traceparent", b.prefix + "tracestate", "traceparent", "tracestate"} {
		properties.set(name, attribute())
	}
	return object{{"description", b.note}, {"type", "object"}, {"properties", properties}, {"required", required}}
}

// constants are the headers that are the same in every message of a version.
func (b broker) constants(m *spec.Model, s sent) object {
	constant := func(value string) object { return object{{"type", "string"}, {"const", value}} }
	o := object{
		{b.prefix + "type", constant(s.event.Name.Text)},
		{b.prefix + "aggregatetype", constant(s.event.Aggregate.Type.Text)},
		{b.prefix + "schemaversion", constant(strconv.Itoa(s.version.Number))},
	}
	if base := m.Exports.SchemaBase.Text; base != "" {
		o.set(b.prefix+"dataschema", constant(base+s.version.SchemaFile(s.event)))
	}
	return o
}

// nats has a channel a subject.
func (a *asyncAPI) nats() {
	b := brokers()[0]
	for _, e := range a.model.Events {
		channel := "nats." + e.Name.Text
		a.channel(b, channel, e.Broker.Key.Text, versionsOf(e), object{{"x-jetstream-stream", e.Broker.Stream.Text}})
		a.operation("nats_send."+e.Name.Text, "send", channel, "", versionsOf(e), nil)
	}
	for _, c := range a.model.Consumers {
		for _, e := range c.Handles {
			a.operation("nats_receive."+c.Name.Text+"_"+e.Name.Text, "receive", "nats."+e.Name.Text,
				c.Name.Text+", through the durable consumer "+c.Broker.Queue.Text, versionsOf(e), nil)
		}
	}
}

// kafka has a channel a topic, which many events share.
func (a *asyncAPI) kafka() {
	b := brokers()[1]
	for _, topic := range topics(a.model.Events) {
		channel, events := "kafka."+topic, onTopic(topic, a.model.Events)
		a.channel(b, channel, topic, versionsOf(events...), object{{"bindings", object{
			{"kafka", object{{"topic", topic}, {"bindingVersion", "0.5.0"}}},
		}}})
		a.operation("kafka_send."+topic, "send", channel, "", versionsOf(events...), nil)
	}
	for _, c := range a.model.Consumers {
		group := object{{"kafka", object{
			{"groupId", object{{"type", "string"}, {"enum", []string{c.Broker.Group.Text}}}}, {"bindingVersion", "0.5.0"},
		}}}
		for _, topic := range topics(c.Handles) {
			a.operation("kafka_receive."+c.Name.Text+"_"+topic, "receive", "kafka."+topic, c.Name.Text,
				versionsOf(onTopic(topic, c.Handles)...), group)
		}
	}
}

func topics(events []*spec.Event) []string {
	var list []string
	for _, e := range events {
		if topic := e.Broker.Topic.Text; !slices.Contains(list, topic) {
			list = append(list, topic)
		}
	}
	return list
}

func onTopic(topic string, events []*spec.Event) []*spec.Event {
	var list []*spec.Event
	for _, e := range events {
		if e.Broker.Topic.Text == topic {
			list = append(list, e)
		}
	}
	return list
}

// rabbitMQ has a channel a routing key, to which is sent, and one a queue, from which is
// received.
func (a *asyncAPI) rabbitMQ() {
	b := brokers()[2]
	amqp := func(more ...member) object {
		return object{{"amqp", append(object(more), member{"bindingVersion", "0.3.0"})}}
	}
	for _, e := range a.model.Events {
		channel := "rabbitmq." + e.Name.Text
		a.channel(b, channel, e.Broker.Key.Text, versionsOf(e), object{{"bindings", amqp(
			member{"is", "routingKey"},
			member{"exchange", object{{"name", e.Broker.Exchange.Text}, {"type", "topic"}, {"durable", true}, {"autoDelete", false}}},
		)}})
		a.operation("rabbitmq_send."+e.Name.Text, "send", channel, "", versionsOf(e), amqp(member{"deliveryMode", 2}))
	}
	for _, c := range a.model.Consumers {
		channel := "rabbitmq_queue." + c.Name.Text
		a.channel(b, channel, c.Broker.Queue.Text, versionsOf(c.Handles...), object{{"bindings", amqp(
			member{"is", "queue"},
			member{"queue", object{{"name", c.Broker.Queue.Text}, {"durable", true}, {"exclusive", false}, {"autoDelete", false}}},
		)}})
		a.operation("rabbitmq_receive."+c.Name.Text, "receive", channel, c.Name.Text, versionsOf(c.Handles...), amqp(member{"ack", true}))
	}
}
