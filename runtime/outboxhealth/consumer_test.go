package outboxhealth_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxhealth"
)

// connector is a database that can't be reached, or whose driver hangs.
type connector struct{ hang chan struct{} }

func (c connector) Connect(context.Context) (driver.Conn, error) {
	if c.hang != nil {
		<-c.hang
	}
	return nil, errors.New("secret")
}
func (connector) Driver() driver.Driver { return nil }

type classifier struct{}

func (classifier) Classify(error) outbox.ErrorInfo {
	return outbox.ErrorInfo{Fault: outbox.FaultConnection}
}

func consumer(t *testing.T, c connector) (handle func(), h *outboxhealth.Health) {
	t.Helper()
	pool := sql.OpenDB(c)
	t.Cleanup(func() { _ = pool.Close() })
	of := outbox.NewConsumer(outbox.NewDB(pool, classifier{}), outbox.ConsumerSpec{
		Name: "planner",
		Routes: map[string]outbox.Route{"a": outbox.On(
			func(int, []byte) (struct{}, error) { return struct{}{}, nil },
			func(context.Context, *outbox.Tx, outbox.Message[struct{}]) error { return nil })},
	}, &outbox.ConsumerConfig{Logger: slog.New(slog.DiscardHandler)})
	handle = func() {
		if _, err := of.Handle(t.Context(), outbox.Envelope{ID: outbox.NewEventID(), Type: "a", SchemaVersion: 1}); err == nil {
			t.Error("handled without a database")
		}
	}
	return handle, outboxhealth.New(outboxhealth.Config{Consumers: []*outbox.Consumer{of}})
}

func TestConsumerWithoutADatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handle, h := consumer(t, connector{})
		want(t, h, "/readyz", true, `"consumer planner"`)
		handle()
		want(t, h, "/readyz", true, "")
		time.Sleep(2 * time.Minute)
		handle()
		want(t, h, "/readyz", false, `"reason":"database","for":"2m0s"`)
		want(t, h, "/healthz", true, "")
	})
}

func TestConsumerWhoseHandlerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang, done := make(chan struct{}), make(chan struct{})
		handle, h := consumer(t, connector{hang: hang})
		go func() { defer close(done); handle() }()
		time.Sleep(time.Minute)
		want(t, h, "/healthz", true, "")
		time.Sleep(2 * time.Minute)
		want(t, h, "/healthz", false, `"name":"consumer planner","ok":false,"reason":"stuck"`)
		close(hang)
		<-done
		want(t, h, "/healthz", true, "")
	})
}
