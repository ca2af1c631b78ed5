package verify

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/runtime/broker/kafka"
)

// partitions of a topic.
const partitions = 3

// kafkaServer is franz-go's broker in this process.
type kafkaServer struct {
	cluster *kfake.Cluster
	client  *kgo.Client
	admin   *kadm.Client
}

func startKafka() (*kafkaServer, error) {
	// Groups are divided at once, and lose members as soon as those want it.
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(redelivery/10),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		return nil, fmt.Errorf("start a Kafka broker: %w", err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		cluster.Close()
		return nil, err
	}
	return &kafkaServer{cluster: cluster, client: client, admin: kadm.NewClient(client)}, nil
}

func (s *kafkaServer) addr() string { return s.cluster.ListenAddrs()[0] }

func (s *kafkaServer) version() string { return "franz-go's in-process Kafka broker" }

func (s *kafkaServer) ensure(ctx context.Context, p place) error {
	_, err := kafka.Ensure(ctx, p.cluster(), p.topology(), kafka.EnsureConfig{Create: true, ReplicationFactor: 1, Partitions: partitions})
	return err
}

func (s *kafkaServer) messages(ctx context.Context, p place) ([]history.Message, error) {
	ends, err := s.admin.ListEndOffsets(ctx, p.Name)
	if err != nil {
		return nil, err
	}
	var want int64
	ends.Each(func(end kadm.ListedOffset) { want += end.Offset })
	reader, err := kgo.NewClient(kgo.SeedBrokers(s.addr()), kgo.ConsumeTopics(p.Name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	var all []history.Message
	for int64(len(all)) < want {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		for _, r := range fetches.Records() {
			m, err := newMessage(func(name string) string {
				for _, h := range r.Headers {
					if h.Key == "ce_"+name {
						return string(h.Value)
					}
				}
				return ""
			}, r.Value)
			if err != nil {
				return nil, err
			}
			all = append(all, m)
		}
	}
	return all, nil
}

// idle is a group without lag.
func (s *kafkaServer) idle(ctx context.Context, p place) (bool, error) {
	ends, err := s.admin.ListEndOffsets(ctx, p.Name)
	if err != nil {
		return false, err
	}
	committed, err := s.admin.FetchOffsets(ctx, p.topology().Consumers[0].Group)
	if err != nil {
		return false, err
	}
	lag := int64(0)
	ends.Each(func(end kadm.ListedOffset) {
		done := int64(0)
		if o, ok := committed.Lookup(end.Topic, end.Partition); ok {
			done = max(o.At, 0)
		}
		lag += end.Offset - done
	})
	return lag == 0, nil
}

func (s *kafkaServer) remove(ctx context.Context, p place) error {
	if _, err := s.admin.DeleteTopics(ctx, p.Name); err != nil {
		return err
	}
	_, err := s.admin.DeleteGroups(ctx, p.topology().Consumers[0].Group)
	return err
}

func (s *kafkaServer) kill() error { return errImmortal }

func (s *kafkaServer) restart(context.Context) error { return errImmortal }

func (s *kafkaServer) close() {
	s.client.Close()
	s.cluster.Close()
}
