// Command relay carries the orders' events from the outbox to NATS JetStream.
// Run as many of it as you like.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/broker/natsjs"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
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

	conn, err := nats.Connect(os.Getenv("ORDERS_NATS_URL"), natsjs.ConnOptions(nats.RetryOnFailedConnect(true))...)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}

	publisher, err := natsjs.NewPublisher(js, natsjs.PublisherConfig{Stream: "ORDERS", Unordered: true})
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(orderevents.NewStore(db), publisher, &outbox.RelayConfig{
		Lease:          15 * time.Second, // how long a dead relay's events wait for another
		PublishTimeout: 5 * time.Second,  // of a batch
	})
	if err != nil {
		return err
	}
	return relay.Run(ctx)
}
