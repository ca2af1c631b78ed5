package outboxotel_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxotel"
)

var topology = outbox.Topology{
	Service:   "shop",
	Events:    []outbox.EventTopology{{Type: "order.accepted"}, {Type: "order.cancelled"}},
	Consumers: []outbox.ConsumerTopology{{Name: "planner", Events: []string{"order.accepted"}}, {Name: "report"}},
}

// sink collects what is recorded.
type sink struct {
	*outboxotel.Telemetry
	reader *metric.ManualReader
	spans  *tracetest.InMemoryExporter
	traces *trace.TracerProvider
}

func (s *sink) tracer() oteltrace.Tracer { return s.traces.Tracer("test") }

func newSink(t *testing.T) *sink {
	t.Helper()
	s := &sink{reader: metric.NewManualReader(), spans: tracetest.NewInMemoryExporter()}
	meters := metric.NewMeterProvider(metric.WithReader(s.reader))
	tracers := trace.NewTracerProvider(trace.WithSyncer(s.spans))
	t.Cleanup(func() {
		_ = meters.Shutdown(context.Background())
		_ = tracers.Shutdown(context.Background())
	})
	s.traces = tracers
	var err error
	s.Telemetry, err = outboxotel.New(outboxotel.Config{Topology: topology, Meters: meters, Tracers: tracers, System: "nats"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// series returns each series with its value, a histogram's count, by name and attributes.
func (s *sink) series(t *testing.T) map[string]float64 {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := s.reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	out := make(map[string]float64)
	add := func(name string, attrs attribute.Set, value float64) {
		var text []string
		for _, kv := range attrs.ToSlice() {
			text = append(text, fmt.Sprintf("%s=%s", kv.Key, kv.Value.String()))
		}
		out[fmt.Sprintf("%s{%s}", name, strings.Join(text, ","))] = value
	}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch points := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range points.DataPoints {
					add(m.Name, p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[int64]:
				for _, p := range points.DataPoints {
					add(m.Name, p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[float64]:
				for _, p := range points.DataPoints {
					add(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range points.DataPoints {
					add(m.Name, p.Attributes, float64(p.Count))
				}
			default:
				t.Errorf("%s is a %T", m.Name, m.Data)
			}
		}
	}
	return out
}

// check wants these series among what is recorded.
func (s *sink) check(t *testing.T, want map[string]float64) {
	t.Helper()
	got := s.series(t)
	for name, value := range want {
		if v, ok := got[name]; !ok || v != value {
			t.Errorf("%s is %v, want %v", name, v, value)
		}
	}
	if t.Failed() {
		t.Logf("recorded:\n%s", strings.Join(slices.Sorted(maps.Keys(got)), "\n"))
	}
}
