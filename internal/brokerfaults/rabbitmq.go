package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/internal/rabbitserver"
	"github.com/outboxgen/outboxgen/runtime/broker/rabbitmq"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// rabbitBroker is a private RabbitMQ server.
type rabbitBroker struct{ server *rabbitserver.Server }

func (b *rabbitBroker) start(ctx context.Context) (err error) {
	b.server, err = rabbitserver.Start(ctx, rabbitserver.Config{Progress: progress})
	if err == nil && !b.server.Private() {
		return fmt.Errorf("a server that can be broken is needed: unset %s", rabbitserver.EnvVar)
	}
	return err
}

func (b *rabbitBroker) kill() error                       { return b.server.Kill() }
func (b *rabbitBroker) restart(ctx context.Context) error { return b.server.Restart(ctx) }

func (b *rabbitBroker) close() {
	if b.server != nil {
		b.server.Close()
	}
}

func connector(addr string) rabbitmq.Connector {
	return rabbitmq.Connector{URLs: []string{"amqp://guest:guest@" + addr + "/"}}
}

func (b *rabbitBroker) ensure(ctx context.Context, t outbox.Topology) error {
	_, err := rabbitmq.Ensure(ctx, connector(b.server.Addr()), t, rabbitmq.EnsureConfig{Create: true})
	return err
}

func (b *rabbitBroker) publisher(p *proxy, t outbox.Topology, ack time.Duration) (outbox.Publisher, func(), error) {
	addr, err := p.addr(b.server.Addr())
	if err != nil {
		return nil, nil, err
	}
	publisher, err := rabbitmq.NewPublisher(connector(addr), rabbitmq.PublisherConfig{Topology: t, AckTimeout: ack})
	if err != nil {
		return nil, nil, err
	}
	return publisher, publisher.Close, nil
}

// do does something on a channel of its own.
func (b *rabbitBroker) do(fn func(*amqp.Channel) error) error {
	conn, err := amqp.Dial(b.server.URL())
	if err != nil {
		return err
	}
	channel, err := conn.Channel()
	if err == nil {
		err = fn(channel)
	}
	return errors.Join(err, conn.Close())
}

func (b *rabbitBroker) holdings(_ context.Context, t outbox.Topology) (all []holding, err error) {
	for _, c := range t.Consumers {
		h := holding{name: c.Queue}
		for _, e := range t.Events {
			if !slices.Contains(c.Events, e.Type) {
				h.not = e.Type
			}
		}
		if err := b.do(func(channel *amqp.Channel) error { return empty(channel, &h) }); err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, nil
}

// empty takes all messages out of a queue.
func empty(channel *amqp.Channel, h *holding) error {
	for {
		m, ok, err := channel.Get(h.name, true)
		if err != nil || !ok {
			return err
		}
		id, err := uuid.Parse(m.MessageId)
		if err != nil {
			return err
		}
		h.ids = append(h.ids, id)
	}
}
