package gogen

import (
	"github.com/dave/jennifer/jen"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// topologyFile has where events go at the brokers, and where consumers read them.
func (g *generator) topologyFile() *file {
	f := g.newFile("topology.gen.go")
	events := make([]jen.Code, len(g.model.Events))
	for i, e := range g.model.Events {
		events[i] = f.eventTopology(e)
	}
	fields := []jen.Code{
		keyed("Service", jen.Id("Service")),
		keyed("Events", jen.Index().Add(f.outbox("EventTopology")).Add(lines("{", "}", events...))),
	}
	if len(g.model.Consumers) > 0 {
		consumers := make([]jen.Code, len(g.model.Consumers))
		for i, c := range g.model.Consumers {
			consumers[i] = f.consumerTopology(c)
		}
		fields = append(fields, keyed("Consumers", jen.Index().Add(f.outbox("ConsumerTopology")).Add(lines("{", "}", consumers...))))
	}
	f.add(docComment(wrap("Topology returns where the events go at each broker, and where the consumers read them. "+
		"A broker's package takes from it what is its own.")), "func Topology",
		jen.Func().Id("Topology").Params().Add(f.outbox("Topology")).Block(
			jen.Return(f.outbox("Topology").Add(lines("{", "}", fields...))),
		))
	return f
}

func (f *file) eventTopology(e *spec.Event) jen.Code {
	return lines("{", "}",
		keyed("Type", jen.Id("EventType"+e.GoName)),
		keyed("Stream", jen.Lit(e.Broker.Stream.Text)),
		keyed("Exchange", jen.Lit(e.Broker.Exchange.Text)),
		keyed("Topic", jen.Lit(e.Broker.Topic.Text)),
		keyed("Key", jen.Lit(e.Broker.Key.Text)),
	)
}

func (f *file) consumerTopology(c *spec.Consumer) jen.Code {
	types := make([]jen.Code, len(c.Handles))
	for i, e := range c.Handles {
		types[i] = jen.Id("EventType" + e.GoName)
	}
	return lines("{", "}",
		keyed("Name", jen.Id("ConsumerName"+c.GoName)),
		keyed("Queue", jen.Lit(c.Broker.Queue.Text)),
		keyed("Group", jen.Lit(c.Broker.Group.Text)),
		keyed("Events", jen.Index().String().Values(types...)),
	)
}
