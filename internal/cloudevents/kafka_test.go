package cloudevents

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outboxgen/outboxgen/runtime/broker/kafka"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const kafkaTopic = "orders"

var kafkaCarrier = carrier{
	name:  "kafka",
	names: names{prefix: "ce_", contentType: "content-type"},
	send: func(t *testing.T, e outbox.Envelope) wire {
		addr := kafkaBroker(t)
		p, err := kafka.NewPublisher(kafka.Cluster{Brokers: []string{addr}}, kafka.PublisherConfig{
			Topic: func(outbox.Envelope) string { return kafkaTopic },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if err := p.Publish(t.Context(), []outbox.Envelope{e})[0]; err != nil {
			t.Fatal(err)
		}
		client := kafkaClient(t, addr, kgo.ConsumeTopics(kafkaTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		record := fetches.Records()[0]
		w := wire{headers: make(map[string]string), body: record.Value}
		for _, h := range record.Headers {
			w.headers[h.Key] = string(h.Value)
		}
		return w
	},
	receive: func(t *testing.T, ctx context.Context, w wire, h outbox.Handler) error {
		addr := kafkaBroker(t)
		record := &kgo.Record{Topic: kafkaTopic, Value: w.body}
		for name, value := range w.headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
		if err := kafkaClient(t, addr).ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
		return kafka.Subscribe(ctx, kafka.Cluster{Brokers: []string{addr}}, h, kafka.SubscribeConfig{Topics: []string{kafkaTopic}})
	},
}

// kafkaBroker is one of its own that has the topic.
func kafkaBroker(t *testing.T) string {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, kafkaTopic),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()[0]
}

func kafkaClient(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addr))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}
