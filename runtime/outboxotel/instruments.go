package outboxotel

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// The bounds of the histograms, in seconds but for the batches. A view of the SDK
// overrides them.
var (
	// callBounds are for one call of a broker, a database or a handler.
	callBounds = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

	// latencyBounds are for an event's way, which a pause may make long.
	latencyBounds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200}

	// batchBounds are events.
	batchBounds = []float64{1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000}
)

// relayInstruments are what a relay's observer records with.
type relayInstruments struct {
	batch, claim, publish, settle, confirm histogram
	answers, settled, stale, abandoned     metric.Int64Counter
	pauses, storeFailures                  metric.Int64Counter
}

type histogram = metric.Float64Histogram

func newRelayInstruments(m metric.Meter) (*relayInstruments, error) {
	b := builder{meter: m}
	i := &relayInstruments{
		batch:   b.histogram("outbox.relay.batch.size", "{event}", batchBounds, "Events of a claim that found any; its count is the number of such claims."),
		claim:   b.histogram("outbox.relay.claim.duration", "s", callBounds, "Time of a claim that found events."),
		publish: b.histogram("outbox.relay.publish.duration", "s", callBounds, "Time until the broker's answers to a batch were there."),
		settle:  b.histogram("outbox.relay.settle.duration", "s", callBounds, "Time of the settlement of a batch that succeeded."),
		confirm: b.histogram("outbox.relay.confirm.latency", "s", latencyBounds, "Time from an event's row to the broker's confirm, by the database's clock and then the relay's."),

		answers:       b.counter("outbox.relay.answers", "{event}", "Events by what the broker answered."),
		settled:       b.counter("outbox.relay.settled", "{event}", "Events by what the database recorded of them."),
		stale:         b.counter("outbox.relay.stale_marks", "{event}", "Events whose lease was lost before the mark: it changed nothing."),
		abandoned:     b.counter("outbox.relay.abandoned", "{event}", "Events that could not be settled in time: they are published again."),
		pauses:        b.counter("outbox.relay.pauses", "{pause}", "Pauses for want of a broker, prolonged ones anew."),
		storeFailures: b.counter("outbox.relay.store.failures", "{call}", "Calls of the store that failed."),
	}
	return i, b.err
}

// consumerInstruments are what a consumer's observer records with.
type consumerInstruments struct {
	handle, effect                        histogram
	handled, duplicates, parked, failures metric.Int64Counter
}

func newConsumerInstruments(m metric.Meter) (*consumerInstruments, error) {
	b := builder{meter: m}
	i := &consumerInstruments{
		handle: b.histogram("outbox.consumer.handle.duration", "s", callBounds, "Time of a handling that ended without an error."),
		effect: b.histogram("outbox.consumer.effect.latency", "s", latencyBounds, "Time from an event's row to the commit of its effect, by the database's clock and then the consumer's."),

		handled:    b.counter("outbox.consumer.handled", "{event}", "Events that were handled, by how."),
		duplicates: b.counter("outbox.consumer.duplicates", "{event}", "Events that the dedup row absorbed, by why they came again."),
		parked:     b.counter("outbox.consumer.parked", "{event}", "Events that were given up on, by why."),
		failures:   b.counter("outbox.consumer.failures", "{event}", "Handlings that failed, by whose fault it was; the events come again."),
	}
	return i, b.err
}

// builder makes instruments and keeps what went wrong.
type builder struct {
	meter metric.Meter
	err   error
}

func (b *builder) histogram(name, unit string, bounds []float64, text string) histogram {
	h, err := b.meter.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(text), metric.WithExplicitBucketBoundaries(bounds...))
	b.err = errors.Join(b.err, err)
	return h
}

func (b *builder) counter(name, unit, text string) metric.Int64Counter {
	c, err := b.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text))
	b.err = errors.Join(b.err, err)
	return c
}

func (b *builder) total(name, unit, text string) metric.Int64ObservableCounter {
	c, err := b.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(text))
	b.err = errors.Join(b.err, err)
	return c
}

func (b *builder) gauge(name, unit, text string) metric.Int64ObservableGauge {
	g, err := b.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(text))
	b.err = errors.Join(b.err, err)
	return g
}

func (b *builder) seconds(name, text string) metric.Float64ObservableGauge {
	g, err := b.meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(text))
	b.err = errors.Join(b.err, err)
	return g
}

// observe registers what is read when metrics are collected.
func (b *builder) observe(f metric.Callback, instruments ...metric.Observable) error {
	if b.err != nil {
		return b.err
	}
	_, err := b.meter.RegisterCallback(f, instruments...)
	return err
}
