// Command consumers runs the notification planner and the sales report, and purges
// their old dedup rows. Run as many of it as you like: one of them is elected to purge.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/outboxgen/outboxgen/example/broker"
	"github.com/outboxgen/outboxgen/example/consumers/notificationplanner"
	"github.com/outboxgen/outboxgen/example/consumers/salesreport"
	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	if err := run(ctx); err != nil {
		slog.Error("consumers failed", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	db, err := mysqldb.Open(os.Getenv("ORDERS_DSN"))
	if err != nil {
		return err
	}
	defer db.Close()

	carrier, err := broker.Open(os.Getenv("ORDERS_BROKER_URL"))
	if err != nil {
		return err
	}
	defer carrier.Close()

	// Beside the consumers, since the dedup rows are in their database, which need
	// not be the one of the orders.
	purger, err := orderevents.NewDedupPurger(db, nil)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx) // one that fails ends the others
	defer cancel()
	var (
		running sync.WaitGroup
		errs    [2]error
	)
	running.Go(func() { _ = purger.Run(ctx) }) // never an error: it goes on until ctx ends
	for i, consumer := range []*outbox.Consumer{
		orderevents.NewNotificationPlanner(db, &notificationplanner.Handler{}, &upcasts.Upcaster{}, nil),
		orderevents.NewSalesReport(db, &salesreport.Handler{}, &upcasts.Upcaster{}, nil),
	} {
		running.Go(func() {
			defer cancel()
			errs[i] = carrier.Subscribe(ctx, consumer)
			s := consumer.Stats()
			slog.Info("consumer stopped", "consumer", consumer.Name(), "attempts", s.Attempts,
				"applied", s.Applied, "duplicates", s.Duplicates, "parked", s.Parked, "errors", s.Errors)
		})
	}
	running.Wait()
	return errors.Join(errs[:]...)
}
