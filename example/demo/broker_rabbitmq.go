package main

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/rabbitserver"
)

// auditQueue gets a copy of everything that the exchange is given.
const auditQueue = "demo.audit"

type rabbitBroker struct {
	server *rabbitserver.Server
	conn   *amqp.Connection
}

func startRabbitMQ(ctx context.Context, out *printer) (brokerServer, error) {
	server, err := rabbitserver.Start(ctx, rabbitserver.Config{Progress: func(line string) { out.say("%s", line) }})
	if err != nil {
		return nil, err
	}
	b := &rabbitBroker{server: server}
	if b.conn, err = amqp.Dial(server.URL()); err != nil {
		server.Close()
		return nil, fmt.Errorf("connect to RabbitMQ: %w", err)
	}
	return b, nil
}

func (b *rabbitBroker) url() string { return b.server.URL() }

func (b *rabbitBroker) describe() string {
	return fmt.Sprintf("RabbitMQ on %s, exchange %s", b.conn.RemoteAddr(), orderevents.Topology().Events[0].Exchange)
}

// prepare binds the audit queue.
func (b *rabbitBroker) prepare(context.Context) error {
	ch, err := b.conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close()
	exchange := orderevents.Topology().Events[0].Exchange
	if err := ch.ExchangeDeclare(exchange, amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
		return fmt.Errorf("declare the exchange: %w", err)
	}
	if _, err := ch.QueueDeclare(auditQueue, true, false, false, false, nil); err != nil {
		return fmt.Errorf("declare the audit queue: %w", err)
	}
	return ch.QueueBind(auditQueue, "#", exchange, false, nil)
}

// unacked counts the messages that are ready: no other count of a quorum queue is
// up to the moment. Those that wait to come again have no dedup row yet.
func (b *rabbitBroker) unacked(_ context.Context, consumer string) (int, error) {
	ch, err := b.conn.Channel()
	if err != nil {
		return 0, err
	}
	defer ch.Close()
	place, _ := orderevents.Topology().Consumer(consumer)
	q, err := ch.QueueDeclarePassive(place.Queue, true, false, false, false, nil)
	return q.Messages, err
}

func (b *rabbitBroker) messages(ctx context.Context) ([]streamMessage, error) {
	ch, err := b.conn.Channel()
	if err != nil {
		return nil, err
	}
	defer ch.Close()
	var all []streamMessage
	for ctx.Err() == nil {
		d, ok, err := ch.Get(auditQueue, true)
		if err != nil || !ok {
			return all, err
		}
		all = append(all, newStreamMessage(func(name string) string {
			value, _ := d.Headers["cloudEvents:"+name].(string)
			return value
		}))
	}
	return nil, ctx.Err()
}

func (b *rabbitBroker) close() {
	_ = b.conn.Close()
	b.server.Close()
}
