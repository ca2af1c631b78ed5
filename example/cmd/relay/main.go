// Command relay carries the orders' events from the outbox to the broker, each
// order's in their order, and purges what was published long ago. Run as many of it
// as you like: the relays share the work, and one of them is elected to purge.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/outboxgen/outboxgen/example/broker"
	"github.com/outboxgen/outboxgen/example/telemetry"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
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

	carrier, err := broker.Open(os.Getenv("ORDERS_BROKER_URL"))
	if err != nil {
		return err
	}
	defer carrier.Close()
	publisher, err := carrier.Publisher()
	if err != nil {
		return err
	}
	tel, err := telemetry.New()
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(orderevents.NewStore(db), publisher, &outbox.RelayConfig{
		Lease:          15 * time.Second, // how long the orders of a dead relay wait for another
		PublishTimeout: 5 * time.Second,  // of a batch
		Observer:       tel.Relay(),
	})
	if err != nil {
		return err
	}
	purger, err := orderevents.NewPurger(db, nil) // keep_published of events.yaml says what is old
	if err != nil {
		return err
	}

	if err := tel.Purger("events", purger); err != nil {
		return err
	}
	health := outboxhealth.New(outboxhealth.Config{Relays: []*outbox.Relay{relay}, Database: db.PingContext})
	if err := tel.Start(ctx, health); err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx) // no purger without a relay
	var purging sync.WaitGroup
	purging.Go(func() { _ = purger.Run(ctx) }) // never an error: it goes on until ctx ends
	err = relay.Run(ctx)
	cancel()
	purging.Wait()
	return err
}
