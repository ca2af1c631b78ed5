// Command api takes orders over HTTP.
package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/outboxgen/outboxgen/example/orders"
	"github.com/outboxgen/outboxgen/example/telemetry"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outboxhealth"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	db, err := mysqldb.Open(os.Getenv("ORDERS_DSN"))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(32)
	db.SetMaxIdleConns(32)

	tel, err := telemetry.New()
	if err != nil {
		return err
	}
	if err := tel.Start(ctx, outboxhealth.New(outboxhealth.Config{Database: db.PingContext})); err != nil {
		return err
	}

	server := &http.Server{
		Addr:              cmp.Or(os.Getenv("ORDERS_LISTEN"), "127.0.0.1:8080"),
		Handler:           telemetry.Requests(orders.NewService(db).Handler()),
		ReadHeaderTimeout: 5 * time.Second,
	}
	go func() {
		<-ctx.Done()
		shutdown, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = server.Shutdown(shutdown)
	}()
	slog.Info("taking orders", "address", server.Addr)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
