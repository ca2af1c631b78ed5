package gogen

import (
	"fmt"
	"slices"

	"github.com/dave/jennifer/jen"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// consumersFile has the handler interface and the constructor of each consumer.
func (g *generator) consumersFile() *file {
	f := g.newFile("consumers.gen.go")
	for _, c := range g.model.Consumers {
		f.consumer(c)
	}
	for _, e := range g.model.Events {
		if len(e.Versions) == 1 && g.isHandled(e) { // else they are in upcasts.gen.go
			f.decoder(e)
		}
	}
	f.add(docComment("dedupConstraint is the unique constraint that only a repeated event violates."),
		"const dedupConstraint", jen.Const().Id("dedupConstraint").Op("=").Lit(DedupConstraint(g.model)))
	return f
}

func (g *generator) isHandled(e *spec.Event) bool {
	for _, c := range g.model.Consumers {
		for _, handled := range c.Handles {
			if handled == e {
				return true
			}
		}
	}
	return false
}

func (f *file) consumer(c *spec.Consumer) {
	constant, handler, constructor := "ConsumerName"+c.GoName, handlerName(c), "New"+c.GoName
	f.add(docComment(wrap(constant+" is half of the identity of the consumer's dedup rows; the event id is the other half.")),
		"const "+constant, jen.Const().Id(constant).Op("=").Lit(c.Name.Text))

	methods := make([]jen.Code, 0, 2*len(c.Handles))
	routes := make([]jen.Code, 0, len(c.Handles))
	for _, e := range c.Handles {
		if len(methods) > 0 {
			methods = append(methods, jen.Line())
		}
		for _, line := range docComment("Handle"+e.GoName+" applies "+e.Name.Text+".", deprecated(e.Deprecated)) {
			methods = append(methods, jen.Comment(line))
		}
		methods = append(methods, f.handleMethod(e, jen.Id(e.GoName)))
		decode := jen.Id("decode" + e.GoName)
		if isManual(e.Newest(), e) {
			decode = decode.Call(jen.Id("upcaster"))
		}
		routes = append(routes, jen.Id("EventType"+e.GoName).Op(":").Add(
			f.outbox("On").Call(decode, jen.Id("handler").Dot("Handle"+e.GoName))))
	}
	f.add(docComment(
		wrap(fmt.Sprintf("%s is what the consumer %s does.", handler, c.Name.Text)),
		c.Doc,
		wrap("A method runs in the transaction that holds the dedup row: what it writes with tx happens once an event. "+
			"What it does elsewhere may happen again; hand m.EventID() on as the idempotency key. "+
			"On an error everything is rolled back and the message will come again, up to the attempts allowed; "+
			"then, and at once with outbox.Permanent, the event is parked."),
	), "type "+handler, jen.Type().Id(handler).Interface(methods...))

	f.add(docComment(wrap(fmt.Sprintf("%s returns the consumer %s. What cfg leaves open, or all of it when it is nil, is as in events.yaml.", constructor, c.Name.Text))),
		"func "+constructor,
		jen.Func().Id(constructor).Params(f.constructorParams(c)...).Op("*").Add(f.outbox("Consumer")).Block(
			jen.Return(f.outbox("NewConsumer").Call(jen.Id("db"),
				f.outbox("ConsumerSpec").Add(lines("{", "}",
					keyed("Name", jen.Id(constant)),
					keyed("Constraint", jen.Id("dedupConstraint")),
					keyed("Inbox", jen.Id("inbox").Values()),
					keyed("Routes", jen.Map(jen.String()).Add(f.outbox("Route")).Add(lines("{", "}", routes...))),
					keyed("DropStale", jen.Lit(c.DropStale)),
					keyed("Defaults", f.outbox("ConsumerConfig").Add(lines("{", "}",
						keyed("Concurrency", jen.Lit(c.Concurrency)),
						keyed("Timeout", f.duration(c.Timeout)),
						keyed("Attempts", jen.Lit(c.Retry.Attempts)),
						keyed("Backoff", f.duration(c.Retry.Backoff)),
						keyed("MaxBackoff", f.duration(c.Retry.MaxBackoff)),
					))),
				)),
				jen.Id("cfg"),
			)),
		))
}

func (f *file) constructorParams(c *spec.Consumer) []jen.Code {
	params := []jen.Code{jen.Id("db").Op("*").Add(f.outbox("DB")), jen.Id("handler").Id(handlerName(c))}
	if slices.ContainsFunc(c.Handles, func(e *spec.Event) bool { return isManual(e.Newest(), e) }) {
		params = append(params, jen.Id("upcaster").Id(upcasterName))
	}
	return append(params, jen.Id("cfg").Op("*").Add(f.outbox("ConsumerConfig")))
}

func handlerName(c *spec.Consumer) string { return c.GoName + "Handler" }

// handleMethod is the signature of a handler's method.
func (f *file) handleMethod(e *spec.Event, payload jen.Code) *jen.Statement {
	return jen.Id("Handle"+e.GoName).Params(
		jen.Id("ctx").Add(f.qual("context", "Context")),
		jen.Id("tx").Op("*").Add(f.outbox("Tx")),
		jen.Id("m").Add(f.outbox("Message")).Types(payload),
	).Error()
}

// decoder writes the function that decodes an event of one version.
func (f *file) decoder(e *spec.Event) {
	name := "decode" + e.GoName
	f.add(nil, "func "+name,
		jen.Func().Id(name).Params(jen.Id("schemaVersion").Int(), jen.Id("data").Index().Byte()).
			Params(jen.Id(e.GoName), jen.Error()).Block(
			jen.Switch(jen.Id("schemaVersion")).Block(
				jen.Case(jen.Lit(e.Newest().Number)).Block(
					jen.Return(f.outbox("DecodePayload").Types(jen.Id(e.GoName)).Call(jen.Id("data")))),
				jen.Default().Block(
					jen.Return(jen.Id(e.GoName).Values(),
						f.outbox("UnknownSchemaVersion").Call(jen.Id("EventType"+e.GoName), jen.Id("schemaVersion")))),
			),
		))
}
