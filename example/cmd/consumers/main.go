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
	"github.com/outboxgen/outboxgen/example/telemetry"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxhealth"
	"github.com/outboxgen/outboxgen/runtime/outboxotel"
	"github.com/outboxgen/outboxgen/runtime/purge"
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

	tel, err := telemetry.New()
	if err != nil {
		return err
	}
	cfg := &outbox.ConsumerConfig{Observer: tel.Consumer()}
	consumers := []*outbox.Consumer{
		orderevents.NewNotificationPlanner(db, &notificationplanner.Handler{}, &upcasts.Upcaster{}, cfg),
		orderevents.NewSalesReport(db, &salesreport.Handler{}, &upcasts.Upcaster{}, cfg),
	}
	health := outboxhealth.New(outboxhealth.Config{Consumers: consumers, Database: db.PingContext})

	ctx, cancel := context.WithCancel(ctx) // one that fails ends the others
	defer cancel()
	stats := make([]outbox.SubscribeStats, len(consumers))
	if err := observe(ctx, tel, db, purger, health, consumers, stats); err != nil {
		return err
	}
	var running sync.WaitGroup
	errs := make([]error, len(consumers))
	running.Go(func() { _ = purger.Run(ctx) }) // never an error: it goes on until ctx ends
	for i, consumer := range consumers {
		running.Go(func() {
			defer cancel()
			errs[i] = health.Run("subscription "+consumer.Name(), func() error {
				return carrier.Subscribe(ctx, consumer, &stats[i])
			})
			s := consumer.Stats()
			slog.Info("consumer stopped", "consumer", consumer.Name(), "attempts", s.Attempts,
				"applied", s.Applied, "duplicates", s.Duplicates, "parked", s.Parked, "errors", s.Errors)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// observe starts the metrics and probes, if they are wanted.
func observe(ctx context.Context, tel *telemetry.Telemetry, db *outbox.DB, purger *purge.Purger,
	health *outboxhealth.Health, consumers []*outbox.Consumer, stats []outbox.SubscribeStats,
) error {
	for i, consumer := range consumers {
		if err := tel.Subscription(consumer.Name(), &stats[i]); err != nil {
			return err
		}
	}
	if err := tel.Purger("dedup", purger); err != nil {
		return err
	}
	if !tel.On() {
		return nil
	}
	parked := func(ctx context.Context) (map[string]int64, error) { return orderevents.CountParked(ctx, db) }
	go func() { _ = tel.Watch(ctx, outboxotel.WatchConfig{Parked: parked}) }() // until ctx ends
	return tel.Start(ctx, health)
}
