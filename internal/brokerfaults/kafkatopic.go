package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outboxgen/outboxgen/runtime/broker/kafka"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// ensureTopics returns when the partitions have leaders. A cluster that has just started
// may not know all of its brokers yet.
func ensureTopics(ctx context.Context, brokers []string, t outbox.Topology, cfg kafka.EnsureConfig) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := kafka.Ensure(ctx, kafka.Cluster{Brokers: brokers}, t, cfg)
		if err == nil {
			_, err = endOffsets(ctx, brokers, t.Events[0].Topic)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func endOffsets(ctx context.Context, brokers []string, topic string) (kadm.ListedOffsets, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	return ends, err
}

// readTopic reads a topic's partitions from their beginnings to their ends.
func readTopic(ctx context.Context, brokers []string, topic string) ([]holding, error) {
	ends, err := endOffsets(ctx, brokers, topic)
	if err != nil {
		return nil, err
	}
	left := 0
	offsets := make(map[int32]kgo.Offset)
	ends.Each(func(o kadm.ListedOffset) {
		left += int(o.Offset)
		offsets[o.Partition] = kgo.NewOffset().AtStart()
	})
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	h := holding{name: "topic " + topic}
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("%d records of topic %s did not come: %w", left, topic, err)
		}
		for _, rec := range fetches.Records() {
			id, err := eventID(rec)
			if err != nil {
				return nil, err
			}
			h.ids = append(h.ids, id)
			left--
		}
	}
	return []holding{h}, nil
}

func eventID(rec *kgo.Record) (uuid.UUID, error) {
	for _, header := range rec.Headers {
		if header.Key == "ce_id" {
			return uuid.ParseBytes(header.Value)
		}
	}
	return uuid.Nil, fmt.Errorf("partition %d, offset %d: no header ce_id", rec.Partition, rec.Offset)
}
