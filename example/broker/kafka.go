package broker

import (
	"context"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/broker/kafka"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

type kafkaBroker struct {
	cluster   kafka.Cluster
	publisher *kafka.Publisher
}

func openKafka(brokers string) (Broker, error) {
	return &kafkaBroker{cluster: kafka.Cluster{
		Brokers: strings.Split(brokers, ","),
		// How long a dead consumer's partitions wait for another, 45 s by default.
		Options: []kgo.Opt{kgo.SessionTimeout(10 * time.Second)},
	}}, nil
}

func (b *kafkaBroker) Ensure(ctx context.Context) error {
	_, err := kafka.Ensure(ctx, b.cluster, orderevents.Topology(), kafka.EnsureConfig{
		Create:            true,
		ReplicationFactor: 1, // the example has one broker; leave it out for yours
	})
	return err
}

func (b *kafkaBroker) Publisher() (p outbox.Publisher, err error) {
	b.publisher, err = kafka.NewPublisher(b.cluster, kafka.PublisherConfig{Topology: orderevents.Topology()})
	return b.publisher, err
}

func (b *kafkaBroker) Subscribe(ctx context.Context, h outbox.Handler, stats *outbox.SubscribeStats) error {
	return kafka.Subscribe(ctx, b.cluster, h, kafka.SubscribeConfig{
		Topology: orderevents.Topology(),
		Stats:    stats,
	})
}

func (b *kafkaBroker) Close() {
	if b.publisher != nil {
		b.publisher.Close()
	}
}
