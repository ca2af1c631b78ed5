package broker

import (
	"context"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/broker/rabbitmq"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

type rabbitBroker struct {
	connector rabbitmq.Connector
	publisher *rabbitmq.Publisher
}

func openRabbitMQ(url string) (Broker, error) {
	return &rabbitBroker{connector: rabbitmq.Connector{URLs: []string{url}}}, nil
}

func (b *rabbitBroker) Ensure(ctx context.Context) error {
	_, err := rabbitmq.Ensure(ctx, b.connector, orderevents.Topology(), rabbitmq.EnsureConfig{Create: true})
	return err
}

func (b *rabbitBroker) Publisher() (p outbox.Publisher, err error) {
	b.publisher, err = rabbitmq.NewPublisher(b.connector, rabbitmq.PublisherConfig{Topology: orderevents.Topology()})
	return b.publisher, err
}

func (b *rabbitBroker) Subscribe(ctx context.Context, h outbox.Handler) error {
	return rabbitmq.Subscribe(ctx, b.connector, h, rabbitmq.SubscribeConfig{Topology: orderevents.Topology()})
}

func (b *rabbitBroker) Close() {
	if b.publisher != nil {
		b.publisher.Close()
	}
}
