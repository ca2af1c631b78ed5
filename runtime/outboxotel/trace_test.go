package outboxotel_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxotel"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
	sampled = "00-" + traceID + "-" + spanID + "-01"
)

func attr(s tracetest.SpanStub, key string) string {
	for _, kv := range s.Attributes {
		if string(kv.Key) == key {
			return kv.Value.String()
		}
	}
	return ""
}

func TestPublishSpans(t *testing.T) {
	s := newSink(t)
	traced, failed, unsampled, plain := event("order.accepted"), event("order.renamed"), event("order.accepted"), event("order.accepted")
	traced.Envelope.Headers = map[string]string{"traceparent": sampled, "tracestate": "a=1"}
	failed.Envelope.Headers = map[string]string{"traceparent": sampled}
	unsampled.Envelope.Headers = map[string]string{"traceparent": "00-" + traceID + "-" + spanID + "-00"}
	s.Relay().Answered(outbox.Answered{
		Events: []outbox.Event{traced, failed, unsampled, plain}, Took: time.Second,
		Errors: []error{nil, outbox.PublishUnknown(errors.New("secret")), nil, nil},
	})
	spans := s.spans.GetSpans()
	if len(spans) != 2 {
		t.Fatalf("%d spans, want those of the two sampled events", len(spans))
	}
	for _, span := range spans {
		if span.Parent.TraceID().String() != traceID || span.Parent.SpanID().String() != spanID || !span.Parent.IsRemote() ||
			span.SpanContext.TraceID().String() != traceID {
			t.Errorf("%s isn't a child of the writer's: %+v", span.Name, span.Parent)
		}
		if span.SpanKind != trace.SpanKindProducer || span.EndTime.Sub(span.StartTime) != time.Second || attr(span, "messaging.batch.message_count") != "4" {
			t.Errorf("%+v", span)
		}
	}
	if spans[0].Name != "publish order.accepted" || spans[0].Status.Code != codes.Unset || attr(spans[0], "messaging.message.id") != traced.Key ||
		spans[0].SpanContext.TraceState().String() != "a=1" {
		t.Errorf("%+v", spans[0])
	}
	if spans[1].Name != "publish other" || spans[1].Status.Code != codes.Error || attr(spans[1], "error.type") != "unknown" || attr(spans[1], "outbox.event_type") != "other" {
		t.Errorf("%+v", spans[1])
	}
	noSecrets(t, s)
}

func TestProcessSpans(t *testing.T) {
	s := newSink(t)
	o := s.Consumer()
	begun := outbox.Begun{Consumer: "planner", EventType: "order.accepted", EventID: "x", Trace: outbox.Trace{Parent: sampled}}
	run := func(b outbox.Begun, end func(ctx context.Context)) tracetest.SpanStub {
		t.Helper()
		ctx := o.Begin(t.Context(), b)
		inHandler := trace.SpanContextFromContext(ctx)
		s.spans.Reset()
		end(ctx)
		spans := s.spans.GetSpans()
		if len(spans) != 1 || spans[0].SpanContext.SpanID() != inHandler.SpanID() || spans[0].SpanKind != trace.SpanKindConsumer {
			t.Fatalf("%d spans: %+v; the handler's is %s", len(spans), spans, inHandler.SpanID())
		}
		return spans[0]
	}
	span := run(begun, func(ctx context.Context) {
		o.Handled(ctx, outbox.Handled{Consumer: "planner", Handling: outbox.Applied})
	})
	if span.Name != "process order.accepted" || span.Parent.SpanID().String() != spanID || span.SpanContext.TraceID().String() != traceID ||
		len(span.Links) != 1 || span.Links[0].SpanContext.SpanID().String() != spanID || attr(span, "outbox.handling") != "applied" ||
		attr(span, "messaging.system") != "nats" || attr(span, "messaging.consumer.group.name") != "planner" {
		t.Errorf("%+v", span)
	}
	begun.Repeat = outbox.RepeatRedelivery
	span = run(begun, func(ctx context.Context) {
		o.Handled(ctx, outbox.Handled{Handling: outbox.Duplicate, Cause: outbox.RepeatRedelivery})
	})
	if attr(span, "outbox.repeat_cause") != "redelivery" || len(span.Links) != 1 || span.SpanContext.TraceID().String() != traceID {
		t.Errorf("of a redelivery: %+v", span)
	}
	span = run(begun, func(ctx context.Context) { o.Failed(ctx, outbox.HandlingFailed{Kind: outbox.FailureFailed}) })
	if span.Status.Code != codes.Error || attr(span, "error.type") != "failed" {
		t.Errorf("of a failure: %+v", span)
	}
	begun.Trace = outbox.Trace{}
	span = run(begun, func(ctx context.Context) { o.Handled(ctx, outbox.Handled{Handling: outbox.Parked, Kind: "attempts"}) })
	if span.Parent.IsValid() || len(span.Links) != 0 || attr(span, "outbox.parked_kind") != "attempts" {
		t.Errorf("of an event without a trace: %+v", span)
	}
	// The caller's own span is not ours to end.
	s.spans.Reset()
	ctx, own := s.tracer().Start(t.Context(), "own")
	o.Failed(ctx, outbox.HandlingFailed{})
	if len(s.spans.GetSpans()) != 0 {
		t.Error("a span that isn't ours was ended")
	}
	own.End()
}

func TestPropagator(t *testing.T) {
	s := newSink(t)
	p := outboxotel.Propagator(nil)
	ctx, span := s.tracer().Start(t.Context(), "request")
	defer span.End()
	headers := map[string]string{}
	p.Inject(ctx, func(name, value string) { headers[name] = value })
	got := trace.SpanContextFromContext(p.Extract(t.Context(), func(name string) string { return headers[name] }))
	if got.SpanID() != span.SpanContext().SpanID() || got.TraceID() != span.SpanContext().TraceID() || !got.IsRemote() {
		t.Errorf("%v of %v, by %v", got, span.SpanContext(), headers)
	}
	for name, value := range headers {
		if err := outbox.CheckHeader(name, value); err != nil {
			t.Error(err)
		}
	}
}
