// Command setup makes what the example's processes need: the tables, something
// in stock, a notification channel for three tenants, and the stream. In a real
// system these are your migrations and your broker's administration.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/example/schema"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := tables(ctx); err != nil {
		log.Fatalf("tables: %v", err)
	}
	if err := stream(ctx); err != nil {
		log.Fatalf("stream: %v", err)
	}
	fmt.Println("tables and stream are ready")
}

func tables(ctx context.Context) error {
	db, err := mysqldb.Open(os.Getenv("ORDERS_DSN"))
	if err != nil {
		return err
	}
	defer db.Close()
	statements := append(schema.Statements(), orderevents.Schema()...)
	statements = append(statements,
		"INSERT INTO stock (sku, available) VALUES ('apple', 1000), ('pear', 1000), ('sold-out', 0)",
		"INSERT INTO notification_channel (tenant_id, channel) VALUES (1, 'mail'), (2, 'mail'), (3, 'sms')",
	)
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func stream(ctx context.Context) error {
	conn, err := nats.Connect(os.Getenv("ORDERS_NATS_URL"))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name:     "ORDERS",
		Subjects: []string{orderevents.Service + ".>"}, // one subject for each type of event
	})
	return err
}
