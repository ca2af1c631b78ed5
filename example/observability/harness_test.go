// Package observability has what watches the example: a dashboard, alert rules, and the
// tests that they name what the processes serve.
package observability

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/outboxgen/outboxgen/example/broker"
	"github.com/outboxgen/outboxgen/example/consumers/notificationplanner"
	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/example/orders"
	"github.com/outboxgen/outboxgen/example/schema"
	"github.com/outboxgen/outboxgen/example/telemetry"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/natsserver"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxotel"
)

// patience is how long a test waits for what takes milliseconds on an idle machine.
const patience = 2 * time.Minute

// example is the order service, a relay and a consumer in this process, with what they log
// and record.
type example struct {
	db      *outbox.DB
	handler http.Handler
	carrier broker.Broker
	planner *outbox.Consumer
	spans   *tracetest.InMemoryExporter
	reader  *sdkmetric.ManualReader
	log     *lockedBuffer
	relay   *outbox.Relay
}

// prepare makes tables, a tenant with a channel, and the broker's side.
func prepare(t *testing.T, server dbtest.Database, url string) {
	t.Helper()
	server.Exec(t, schema.Statements()...)
	server.Exec(t, orderevents.Schema()...)
	server.Exec(t, "INSERT INTO stock (sku, available) VALUES ('apple', 1000)",
		"INSERT INTO notification_channel (tenant_id, channel) VALUES (1, 'mail')")
	carrier, err := broker.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	defer carrier.Close()
	if err := carrier.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// newExample runs it all until the test ends. It sets this process's global providers.
func newExample(t *testing.T, server dbtest.Database) *example {
	t.Helper()
	nats := natsserver.StartT(t, natsserver.Config{})
	prepare(t, server, nats.URL())
	x := &example{spans: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader(), log: &lockedBuffer{}}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(x.spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(x.reader))
	logger := slog.New(slog.NewJSONHandler(x.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	before, tracersBefore := slog.Default(), otel.GetTracerProvider()
	otel.SetTracerProvider(tracers)
	slog.SetDefault(logger)
	outbox.SetPropagator(outboxotel.Propagator(nil))
	t.Cleanup(func() {
		slog.SetDefault(before)
		otel.SetTracerProvider(tracersBefore)
		outbox.SetPropagator(nil)
	})

	var err error
	if x.db, err = mysqldb.Open(server.DSN); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.db.Close() })
	if x.carrier, err = broker.Open(nats.URL()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.carrier.Close)
	tel, err := outboxotel.New(outboxotel.Config{Topology: orderevents.Topology(), Meters: meters, Tracers: tracers, System: "nats"})
	if err != nil {
		t.Fatal(err)
	}
	publisher, err := x.carrier.Publisher()
	if err != nil {
		t.Fatal(err)
	}
	x.relay, err = outbox.NewRelay(orderevents.NewStore(x.db), publisher, &outbox.RelayConfig{
		Observer: tel.Relay(), PollInterval: 20 * time.Millisecond, BacklogInterval: 50 * time.Millisecond, Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	x.planner = orderevents.NewNotificationPlanner(x.db, &notificationplanner.Handler{}, &upcasts.Upcaster{},
		&outbox.ConsumerConfig{Observer: tel.Consumer(), Logger: logger, Attempts: 2, Backoff: time.Millisecond, MaxBackoff: 2 * time.Millisecond})
	x.handler = telemetry.Requests(orders.NewService(x.db).Handler())
	x.start(t)
	return x
}

func (x *example) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := x.relay.Run(ctx); err != nil {
			t.Errorf("relay: %v", err)
		}
	})
	running.Go(func() {
		if err := x.carrier.Subscribe(ctx, x.planner, nil); err != nil {
			t.Errorf("subscription: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
}

// order posts an order of a tenant.
func (x *example) order(t *testing.T, tenant int, note, traceparent string) {
	t.Helper()
	body := fmt.Sprintf(`{"request_id":%q,"currency":"EUR","note":%q,
		"lines":[{"sku":"apple","quantity":2,"unit_price":{"amount":"1.50","currency":"EUR"}}]}`, outbox.NewEventID(), note)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders", strings.NewReader(body))
	r.Header.Set("X-Tenant-ID", fmt.Sprint(tenant))
	if traceparent != "" {
		r.Header.Set("traceparent", traceparent)
	}
	w := httptest.NewRecorder()
	x.handler.ServeHTTP(w, r)
	if w.Code != http.StatusCreated {
		t.Fatalf("the order was answered with %d: %s", w.Code, w.Body)
	}
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}

// metrics prints all that is recorded.
func (x *example) metrics(t *testing.T) string {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := x.reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%+v", data.ScopeMetrics)
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// freeAddress is one that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
