package outboxotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Consumer returns the observer for a [outbox.ConsumerConfig]. It may be given to all
// consumers of a process.
func (t *Telemetry) Consumer() *outbox.ConsumerObserver {
	t.zeroConsumers(context.Background())
	return &outbox.ConsumerObserver{Begin: t.beginProcess, Handled: t.handled, Failed: t.failed}
}

func (t *Telemetry) handled(ctx context.Context, h outbox.Handled) {
	endProcess(ctx, h)
	i := t.consumer
	consumer := attribute.String(attrConsumer, t.consumers.known(h.Consumer))
	eventType := attribute.String(attrEventType, t.types.known(h.EventType))
	handling := attribute.String(attrHandling, handlingOf(h.Handling))
	i.handled.Add(ctx, 1, with(consumer, eventType, handling))
	i.handle.Record(ctx, h.Took.Seconds(), with(consumer, handling))
	switch h.Handling {
	case outbox.Applied:
		// A redriven event has waited for a person: that isn't the system's latency.
		if !h.Redrive && !h.Created.IsZero() {
			i.effect.Record(ctx, latency(h.Created, time.Now()), with(consumer, eventType))
		}
	case outbox.Duplicate:
		i.duplicates.Add(ctx, 1, with(consumer, attribute.String(attrCause, causeOf(h.Cause))))
	case outbox.Parked:
		i.parked.Add(ctx, 1, with(consumer, attribute.String(attrKind, kindOf(h.Kind))))
	case outbox.NotHandled, outbox.Skipped:
	}
}

func (t *Telemetry) failed(ctx context.Context, f outbox.HandlingFailed) {
	failProcess(ctx, f)
	t.consumer.failures.Add(ctx, 1, with(
		attribute.String(attrConsumer, t.consumers.known(f.Consumer)),
		attribute.String(attrEventType, t.types.known(f.EventType)),
		failure(f.Kind)))
}

func handlingOf(h outbox.Handling) string { return oneOf(h.String(), handlings()...) }
func causeOf(c outbox.RepeatCause) string { return oneOf(string(c), causes()...) }
func kindOf(kind string) string           { return oneOf(kind, kinds()...) }
