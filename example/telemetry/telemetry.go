// Package telemetry gives the example's processes metrics, traces and probes: what a
// service that uses OpenTelemetry wires once. Spans go where the process's global tracer
// provider sends them; the example sets none.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxhealth"
	"github.com/outboxgen/outboxgen/runtime/outboxotel"
)

// AddressVar names the environment variable with the address on which /metrics, /healthz
// and /readyz are served, such as 127.0.0.1:9464. Unset, nothing is served or counted.
const AddressVar = "ORDERS_METRICS_ADDR"

// Telemetry makes the observers. Make one with [New], once a process.
type Telemetry struct {
	*outboxotel.Telemetry
	address  string
	registry *prometheus.Registry
}

// New reads the environment.
func New() (*Telemetry, error) {
	t := &Telemetry{address: os.Getenv(AddressVar), registry: prometheus.NewRegistry()}
	if t.address != "" {
		reader, err := exporter.New(exporter.WithRegisterer(t.registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
		if err != nil {
			return nil, fmt.Errorf("telemetry: %w", err)
		}
		otel.SetMeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader)))
	}
	outbox.SetPropagator(outboxotel.Propagator(nil)) // from the request to the handler
	var err error
	if t.Telemetry, err = outboxotel.New(outboxotel.Config{Topology: orderevents.Topology()}); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return t, nil
}

// On reports whether metrics are wanted.
func (t *Telemetry) On() bool { return t.address != "" }

// Start serves until ctx ends, on a goroutine of its own. That the address can't be had is
// an error at once.
func (t *Telemetry) Start(ctx context.Context, health *outboxhealth.Health) error {
	if !t.On() {
		return nil
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", t.address)
	if err != nil {
		return fmt.Errorf("telemetry: listen on %s: %w", AddressVar, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{}))
	mux.Handle("GET /", health.Handler())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("metrics and probes are no longer served", "error", err)
		}
	}()
	slog.Info("serving metrics and probes", "address", listener.Addr().String())
	return nil
}
