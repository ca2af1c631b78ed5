package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	carriers "github.com/outboxgen/outboxgen/example/broker"
	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/brokers"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// endToEndRate is the load of the section, in events a second.
const endToEndRate = 500

// endToEnd measures from the commit of an event to the commit of its effect, over
// each broker.
func (b *bench) endToEnd(ctx context.Context) error {
	for _, name := range brokers.Names() {
		if !b.wanted(name) {
			continue
		}
		if err := b.endToEndOver(ctx, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (b *bench) endToEndOver(ctx context.Context, name string) error {
	server, err := brokers.Start(ctx, name, nil)
	if err != nil {
		return err
	}
	defer server.Close()
	carrier, err := carriers.Open(server.URL)
	if err != nil {
		return err
	}
	defer carrier.Close()
	if err := carrier.Ensure(ctx); err != nil {
		return err
	}
	box, err := newBox(ctx, b.dsn, aggregate, "e2e")
	if err != nil {
		return err
	}
	defer box.close()
	if err := box.exec(ctx, "CREATE TABLE effect (event_id CHAR(36) CHARACTER SET ascii PRIMARY KEY)"); err != nil {
		return err
	}
	c := &effects{box: box, carrier: carrier}
	f := flow{
		rate: endToEndRate, lasts: b.lasts, size: small, relays: 1, woken: true, consume: c.start,
		publisher: func(context.Context, bool) (outbox.Publisher, func(), error) {
			p, err := carrier.Publisher()
			return p, func() {}, err
		},
	}
	if _, err := b.measureFlow(ctx, box, f, "e2e", server.What); err != nil {
		return err
	}
	stats := c.consumer.Stats()
	last := &b.report.Latencies[len(b.report.Latencies)-1]
	last.Duplicates = &stats.Duplicates
	b.progress("%-70s %d applied, %d duplicates", server.What, stats.Applied, stats.Duplicates)
	return nil
}

// effects is a consumer whose effect is a row.
type effects struct {
	box      *box
	carrier  carriers.Broker
	consumer *outbox.Consumer
}

// start consumes until stop is called.
func (c *effects) start(ctx context.Context, t *tracker) (stop func() error, err error) {
	p, err := openPool(c.box.cfg, idleConns, nil)
	if err != nil {
		return nil, err
	}
	c.consumer = orderevents.NewSalesReport(p.DB, effectHandler{}, &upcasts.Upcaster{}, &outbox.ConsumerConfig{Concurrency: 8})
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- c.carrier.Subscribe(ctx, trackedHandler{c.consumer, t}, nil) }()
	return func() error {
		cancel()
		return errors.Join(<-done, p.Close())
	}, nil
}

type effectHandler struct{}

func (effectHandler) HandleOrderAccepted(ctx context.Context, tx *outbox.Tx, m outbox.Message[orderevents.OrderAccepted]) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO effect (event_id) VALUES (?)", m.EventID().String())
	return err
}

// trackedHandler notes when an effect was committed.
type trackedHandler struct {
	*outbox.Consumer
	tracker *tracker
}

func (h trackedHandler) Handle(ctx context.Context, e outbox.Envelope) (outbox.Handling, error) {
	handling, err := h.Consumer.Handle(ctx, e)
	if handling == outbox.Applied {
		h.tracker.confirmed([]outbox.Envelope{e}, []error{nil}, time.Now())
	}
	return handling, err
}
