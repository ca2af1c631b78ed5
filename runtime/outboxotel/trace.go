package outboxotel

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// The spans follow OpenTelemetry's conventions for messaging
// (https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/). The context that
// the writer stored with the row is the message's creation context, which nobody on
// the way may change: so the relay puts none of its own on the wire.
//
// publish: a span an event, whose parent is the writer's, rather than one for the call
// with links. A call's batch is of many traces; links from a trace of its own would not
// show, in the request's trace, that the event has left and how long it waited. It is
// made when the answer is there, for events whose trace is sampled alone, so that the
// others cost nothing.
//
// process: one message is handled at a time, so its parent may be the creation context,
// which makes one trace of it all. The conventions want a link to it in any case.

// Propagator carries OpenTelemetry's trace context through the outbox: give it to
// [outbox.SetPropagator] once in each process. p defaults to the W3C's trace context. One
// that carries baggage stores that in the rows and sends it to every consumer: mind
// what is in it.
func Propagator(p propagation.TextMapPropagator) outbox.Propagator {
	if p == nil {
		p = propagation.TraceContext{}
	}
	return propagator{p}
}

type propagator struct{ p propagation.TextMapPropagator }

func (p propagator) Inject(ctx context.Context, set func(name, value string)) {
	p.p.Inject(ctx, carrier{set: set})
}

func (p propagator) Extract(ctx context.Context, get func(name string) string) context.Context {
	return p.p.Extract(ctx, carrier{get: get})
}

// carrier are an event's headers, whose names are lower case.
type carrier struct {
	get func(name string) string
	set func(name, value string)
}

func (c carrier) Get(key string) string {
	if c.get == nil {
		return ""
	}
	return c.get(strings.ToLower(key))
}

func (c carrier) Set(key, value string) {
	if c.set != nil {
		c.set(strings.ToLower(key), value)
	}
}

func (carrier) Keys() []string { return nil }

// creation is the context that the writer stored.
func creation(parent, state string) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(),
		propagation.MapCarrier{"traceparent": parent, "tracestate": state})
	return trace.SpanContextFromContext(ctx)
}

func (t *Telemetry) publishSpans(a outbox.Answered, end time.Time) {
	for n := range a.Events {
		e := &a.Events[n].Envelope
		parent := creation(e.Headers["traceparent"], e.Headers["tracestate"])
		if !parent.IsSampled() {
			continue
		}
		attrs := append(t.spanAttributes("publish", "send", e.ID.String(), e.Type),
			attribute.Int("messaging.batch.message_count", len(a.Events)))
		_, span := t.tracer.Start(trace.ContextWithRemoteSpanContext(context.Background(), parent),
			"publish "+t.types.known(e.Type), trace.WithSpanKind(trace.SpanKindProducer),
			trace.WithTimestamp(end.Add(-a.Took)), trace.WithAttributes(attrs...))
		if err := a.Errors[n]; err != nil {
			fail(span, outbox.FailureKindOf(err))
		}
		span.End(trace.WithTimestamp(end))
	}
}

func (t *Telemetry) spanAttributes(name, operation, id, eventType string) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		attribute.String("messaging.operation.name", name),
		attribute.String("messaging.operation.type", operation),
		attribute.String("messaging.message.id", id),
		attribute.String("outbox.event_type", t.types.known(eventType)),
	}
	if t.system != "" {
		attrs = append(attrs, attribute.String("messaging.system", t.system))
	}
	return attrs
}

// fail marks a span without the error's text, which is somebody else's.
func fail(span trace.Span, k outbox.FailureKind) {
	kind := failure(k).Value.AsString()
	span.SetAttributes(attribute.String("error.type", kind))
	span.SetStatus(codes.Error, kind)
}

type processKey struct{}

func (t *Telemetry) beginProcess(ctx context.Context, b outbox.Begun) context.Context {
	attrs := append(t.spanAttributes("process", "process", b.EventID, b.EventType),
		attribute.String("messaging.consumer.group.name", t.consumers.known(b.Consumer)))
	if b.Repeat != "" {
		attrs = append(attrs, attribute.String("outbox.repeat_cause", causeOf(b.Repeat)))
	}
	if b.Redrive {
		attrs = append(attrs, attribute.Bool("outbox.redrive", true))
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attrs...)}
	parent := creation(b.Trace.Parent, b.Trace.State)
	if parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
		options = append(options, trace.WithLinks(trace.Link{SpanContext: parent}))
	} else {
		options = append(options, trace.WithNewRoot())
	}
	ctx, span := t.tracer.Start(ctx, "process "+t.types.known(b.EventType), options...)
	return context.WithValue(ctx, processKey{}, span)
}

// process is the span that Begin has started. ctx may be of a call for which it was not called.
func process(ctx context.Context) trace.Span {
	if span, ok := ctx.Value(processKey{}).(trace.Span); ok {
		return span
	}
	return trace.SpanFromContext(context.Background()) // records nothing
}

func endProcess(ctx context.Context, h outbox.Handled) {
	span := process(ctx)
	span.SetAttributes(attribute.String("outbox.handling", handlingOf(h.Handling)))
	switch h.Handling {
	case outbox.Duplicate:
		span.SetAttributes(attribute.String("outbox.repeat_cause", causeOf(h.Cause)))
	case outbox.Parked:
		span.SetAttributes(attribute.String("outbox.parked_kind", kindOf(h.Kind)))
		span.SetStatus(codes.Error, "parked")
	case outbox.NotHandled, outbox.Applied, outbox.Skipped:
	}
	span.End()
}

func failProcess(ctx context.Context, f outbox.HandlingFailed) {
	span := process(ctx)
	fail(span, f.Kind)
	span.End()
}
