// Command setup makes what the example's processes need: the tables, something
// in stock, a notification channel for three tenants, and the broker's side. In a real
// system these are your migrations and your broker's administration.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/outboxgen/outboxgen/example/broker"
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
	if err := topology(ctx); err != nil {
		log.Fatalf("broker: %v", err)
	}
	fmt.Println("tables and broker are ready")
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

// topology makes the streams, queues or topics of events.yaml.
func topology(ctx context.Context) error {
	carrier, err := broker.Open(os.Getenv("ORDERS_BROKER_URL"))
	if err != nil {
		return err
	}
	defer carrier.Close()
	return carrier.Ensure(ctx)
}
