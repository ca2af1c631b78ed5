// Package outboxotel tells OpenTelemetry what relays, consumers, subscriptions and purgers
// do: metrics whose names begin with `outbox.`, and one trace from the writer to the effect.
// It uses the API alone; the SDK, its exporters and views are the service's choice.
//
// The series of a metric are bounded by events.yaml: an event type or a consumer that it
// doesn't declare becomes `other`, and everything else is one of a few words. No payload,
// header, id, address or text of an error becomes an attribute of a metric.
package outboxotel

import (
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// scope names this package to OpenTelemetry.
const scope = "github.com/outboxgen/outboxgen/runtime/outboxotel"

// The attributes of the metrics. Prometheus shows dots as underscores.
const (
	attrEventType = "event_type"
	attrConsumer  = "consumer"
	attrState     = "state"
	attrResult    = "result"
	attrOutcome   = "outcome"
	attrFailure   = "failure"
	attrCall      = "call"
	attrHandling  = "handling"
	attrCause     = "cause"
	attrKind      = "kind"
	attrPurger    = "purger"
)

// other stands for what events.yaml doesn't declare.
const other = "other"

// Config says whose metrics they are, and where they go.
type Config struct {
	// Topology has the event types and consumers that may be named: the generated
	// Topology(). Without it all are `other`.
	Topology outbox.Topology

	// Meters makes the instruments. Defaults to otel.GetMeterProvider().
	Meters metric.MeterProvider

	// Tracers makes the spans. Defaults to otel.GetTracerProvider().
	Tracers trace.TracerProvider

	// System is the broker's name in OpenTelemetry's conventions, for spans, such as nats,
	// rabbitmq or kafka. Left out when empty.
	System string
}

// Telemetry makes observers. Make one a process with [New].
type Telemetry struct {
	meter     metric.Meter
	tracer    trace.Tracer
	system    string
	types     names
	consumers names
	handles   []outbox.ConsumerTopology
	relay     *relayInstruments
	consumer  *consumerInstruments
	backlog   backlog
}

// New makes the instruments of relays and consumers.
func New(cfg Config) (*Telemetry, error) {
	if cfg.Meters == nil {
		cfg.Meters = otel.GetMeterProvider()
	}
	if cfg.Tracers == nil {
		cfg.Tracers = otel.GetTracerProvider()
	}
	t := &Telemetry{
		meter:     cfg.Meters.Meter(scope),
		tracer:    cfg.Tracers.Tracer(scope),
		system:    cfg.System,
		types:     make(names),
		consumers: make(names),
		handles:   cfg.Topology.Consumers,
	}
	for _, e := range cfg.Topology.Events {
		t.types.add(e.Type)
	}
	for _, c := range cfg.Topology.Consumers {
		t.consumers.add(c.Name)
	}
	var err error
	if t.relay, err = newRelayInstruments(t.meter); err != nil {
		return nil, fmt.Errorf("outboxotel: %w", err)
	}
	if t.consumer, err = newConsumerInstruments(t.meter); err != nil {
		return nil, fmt.Errorf("outboxotel: %w", err)
	}
	if err := t.observeBacklog(); err != nil {
		return nil, fmt.Errorf("outboxotel: %w", err)
	}
	return t, nil
}

// names are those that may become attributes.
type names map[string]struct{}

func (n names) add(name string) { n[name] = struct{}{} }

// known returns name, or other when it isn't declared.
func (n names) known(name string) string {
	if _, ok := n[name]; ok {
		return name
	}
	return other
}

// oneOf returns word if it is one of a fixed list, else other.
func oneOf(word string, list ...string) string {
	for _, w := range list {
		if w == word {
			return w
		}
	}
	return other
}

// failure is a kind's name as an attribute.
func failure(k outbox.FailureKind) attribute.KeyValue {
	name := k.String()
	if k == outbox.FailureHeldBack {
		name = "held_back"
	}
	return attribute.String(attrFailure, name)
}

// with makes attributes an option of a measurement.
func with(kv ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(kv...))
}
