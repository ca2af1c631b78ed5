package outboxotel

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// The words that attributes may be, beside `other`.

func calls() []string { return []string{"check", "claim", "renew", "settle", "release", "backlog"} }

func handlings() []string { return []string{"applied", "duplicate", "skipped", "parked"} }

func kinds() []string {
	return []string{"attempts", "permanent", "payload", "type", "version", "message"}
}

func causes() []string {
	return []string{
		string(outbox.RepeatLeaseExpired), string(outbox.RepeatConfirmLost), string(outbox.RepeatRedelivery),
		string(outbox.RepeatRedrive), string(outbox.RepeatUnknown),
	}
}

func failures() []outbox.FailureKind {
	return []outbox.FailureKind{
		outbox.FailureUnknown, outbox.FailureUnavailable, outbox.FailureFailed, outbox.FailureRejected, outbox.FailureHeldBack,
	}
}

// zero makes a counter's series begin at 0, so that the first one counted is an increase: a
// series that appears with a 1 is none to Prometheus.
func zero(ctx context.Context, c metric.Int64Counter, attrs ...attribute.KeyValue) {
	c.Add(ctx, 0, with(attrs...))
}

func (t *Telemetry) zeroRelay(ctx context.Context) {
	for _, c := range []metric.Int64Counter{t.relay.stale, t.relay.abandoned, t.relay.pauses} {
		zero(ctx, c)
	}
	for _, call := range calls() {
		zero(ctx, t.relay.storeFailures, attribute.String(attrCall, call))
	}
	for _, o := range []string{"published", "released", "unknown"} {
		zero(ctx, t.relay.settled, attribute.String(attrOutcome, o))
	}
	zero(ctx, t.relay.settled, attribute.String(attrOutcome, "retry"), failure(outbox.FailureFailed))
	for _, k := range []outbox.FailureKind{outbox.FailureFailed, outbox.FailureRejected} {
		zero(ctx, t.relay.settled, attribute.String(attrOutcome, "dead"), failure(k))
	}
	for eventType := range t.types {
		results := []string{"confirmed"}
		for _, k := range failures() {
			results = append(results, failure(k).Value.AsString())
		}
		for _, result := range results {
			zero(ctx, t.relay.answers, attribute.String(attrEventType, eventType), attribute.String(attrResult, result))
		}
	}
}

func (t *Telemetry) zeroConsumers(ctx context.Context) {
	for _, c := range t.handles {
		consumer := attribute.String(attrConsumer, c.Name)
		for _, cause := range causes() {
			zero(ctx, t.consumer.duplicates, consumer, attribute.String(attrCause, cause))
		}
		for _, kind := range kinds() {
			zero(ctx, t.consumer.parked, consumer, attribute.String(attrKind, kind))
		}
		for _, eventType := range c.Events {
			of := attribute.String(attrEventType, eventType)
			for _, handling := range handlings() {
				zero(ctx, t.consumer.handled, consumer, of, attribute.String(attrHandling, handling))
			}
			for _, k := range slices.DeleteFunc(failures(), func(k outbox.FailureKind) bool { return k == outbox.FailureRejected }) {
				zero(ctx, t.consumer.failures, consumer, of, failure(k))
			}
		}
	}
}
