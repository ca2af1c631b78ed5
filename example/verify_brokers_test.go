package example

import (
	"context"
	"testing"

	"github.com/outboxgen/outboxgen/example/broker"
	"github.com/outboxgen/outboxgen/internal/brokers"
	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest"
)

// The same on each of the brokers: who has one gives its publisher and its subscription.
func TestVerifyOnBrokers(t *testing.T) {
	for _, name := range brokers.Names() {
		t.Run(name, func(t *testing.T) {
			server, err := brokers.Start(t.Context(), name, func(line string) { t.Log(line) })
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			carrier, err := broker.Open(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer carrier.Close()
			if err := carrier.Ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			cfg := config(t, dbtest.New(t, dbserver.MySQL).DSN)
			if cfg.Publisher, err = carrier.Publisher(); err != nil {
				t.Fatal(err)
			}
			cfg.Broker = server.What
			cfg.Subscribe = func(ctx context.Context, h outbox.Handler) error { return carrier.Subscribe(ctx, h, nil) }
			outboxtest.Verify(t, cfg)
		})
	}
}
