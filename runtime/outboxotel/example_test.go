package outboxotel_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxotel"
	"github.com/outboxgen/outboxgen/runtime/outboxtest"
)

func Example() {
	reader := metric.NewManualReader() // in a service: the exporter of your backend
	tel, err := outboxotel.New(outboxotel.Config{
		Topology: topology, // the generated Topology()
		Meters:   metric.NewMeterProvider(metric.WithReader(reader)),
	})
	if err != nil {
		panic(err)
	}
	outbox.SetPropagator(outboxotel.Propagator(nil)) // once a process
	defer outbox.SetPropagator(nil)
	broker := outboxtest.NewBroker(outboxtest.BrokerConfig{})
	if _, err := outbox.NewRelay(emptyStore{}, broker, &outbox.RelayConfig{Observer: tel.Relay()}); err != nil {
		panic(err)
	}

	var data metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &data); err != nil {
		panic(err)
	}
	for _, m := range data.ScopeMetrics[0].Metrics {
		if m.Name == "outbox.relay.stale_marks" {
			fmt.Println(m.Description)
		}
	}
	// Output: Events whose lease was lost before the mark: it changed nothing.
}

// emptyStore stands for the generated NewStore(db).
type emptyStore struct{ outbox.Store }
