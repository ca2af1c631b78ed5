package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outboxgen/outboxgen/gen/orderevents"
)

// kafkaBroker is franz-go's broker in this process, which speaks Kafka's protocol, or
// a cluster of the reader's own.
type kafkaBroker struct {
	cluster *kfake.Cluster // nil with one of the reader's own
	seeds   []string
	client  *kgo.Client
	admin   *kadm.Client
}

func startKafka(_ context.Context, _ *printer) (brokerServer, error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return nil, fmt.Errorf("start a Kafka broker: %w", err)
	}
	b := &kafkaBroker{cluster: cluster, seeds: cluster.ListenAddrs()}
	if b.client, err = kgo.NewClient(kgo.SeedBrokers(b.seeds...)); err != nil {
		cluster.Close()
		return nil, err
	}
	b.admin = kadm.NewClient(b.client)
	return b, nil
}

func kafkaTopic() string { return orderevents.Topology().Events[0].Topic }

func (b *kafkaBroker) url() string { return "kafka://" + strings.Join(b.seeds, ",") }

func (b *kafkaBroker) describe() string {
	return fmt.Sprintf("franz-go's Kafka broker in this process on %s, topic %s", strings.Join(b.seeds, ", "), kafkaTopic())
}

func (b *kafkaBroker) prepare(context.Context) error { return nil }

// unacked is the group's lag.
func (b *kafkaBroker) unacked(ctx context.Context, consumer string) (int, error) {
	place, _ := orderevents.Topology().Consumer(consumer)
	ends, err := b.admin.ListEndOffsets(ctx, kafkaTopic())
	if err != nil {
		return 0, err
	}
	committed, err := b.admin.FetchOffsets(ctx, place.Group)
	if err != nil {
		return 0, err
	}
	lag := 0
	ends.Each(func(end kadm.ListedOffset) {
		done := int64(0)
		if o, ok := committed.Lookup(end.Topic, end.Partition); ok {
			done = max(o.At, 0)
		}
		lag += int(end.Offset - done)
	})
	return lag, nil
}

func (b *kafkaBroker) messages(ctx context.Context) ([]streamMessage, error) {
	ends, err := b.admin.ListEndOffsets(ctx, kafkaTopic())
	if err != nil {
		return nil, err
	}
	var want int64
	ends.Each(func(end kadm.ListedOffset) { want += end.Offset })
	reader, err := kgo.NewClient(kgo.SeedBrokers(b.seeds...), kgo.ConsumeTopics(kafkaTopic()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	var all []streamMessage
	for int64(len(all)) < want {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			all = append(all, newStreamMessage(func(name string) string {
				for _, h := range r.Headers {
					if h.Key == "ce_"+name {
						return string(h.Value)
					}
				}
				return ""
			}))
		})
	}
	return all, nil
}

func (b *kafkaBroker) close() {
	b.client.Close()
	if b.cluster != nil {
		b.cluster.Close()
	}
}
