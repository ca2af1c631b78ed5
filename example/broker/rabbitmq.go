package broker

import (
	"context"
	"log/slog"

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
	report, err := rabbitmq.Ensure(ctx, b.connector, orderevents.Topology(), rabbitmq.EnsureConfig{Create: true})
	if err != nil {
		return err
	}
	for _, event := range report.Unhandled { // unroutable, and so dead, when it is published
		slog.Warn("no consumer handles this event", "event_type", event)
	}
	return nil
}

func (b *rabbitBroker) Publisher() (p outbox.Publisher, err error) {
	b.publisher, err = rabbitmq.NewPublisher(b.connector, rabbitmq.PublisherConfig{Topology: orderevents.Topology()})
	return b.publisher, err
}

func (b *rabbitBroker) Subscribe(ctx context.Context, h outbox.Handler, stats *outbox.SubscribeStats) error {
	return rabbitmq.Subscribe(ctx, b.connector, h, rabbitmq.SubscribeConfig{Topology: orderevents.Topology(), Stats: stats})
}

func (b *rabbitBroker) Close() {
	if b.publisher != nil {
		b.publisher.Close()
	}
}
