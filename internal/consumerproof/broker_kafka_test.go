package consumerproof

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outboxgen/outboxgen/runtime/broker/kafka"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// cluster has one broker, so that whatever is dialled is the address.
func (p place) cluster() kafka.Cluster {
	return kafka.Cluster{Brokers: []string{p.Addr}, Options: []kgo.Opt{
		kgo.Dialer(dialTo(p.Addr)),
		kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.HeartbeatInterval(deathNotice / 10),
		kgo.SessionTimeout(deathNotice),
	}}
}

func newKafka(t *testing.T) *rig {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(100*time.Millisecond),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	r := &rig{place: newPlace("kafka", cluster.ListenAddrs()[0]), repeats: func() {}}
	if _, err := kafka.Ensure(t.Context(), r.cluster(), r.topology(), kafka.EnsureConfig{Create: true, ReplicationFactor: 1}); err != nil {
		t.Fatal(err)
	}
	p, err := kafka.NewPublisher(r.cluster(), kafka.PublisherConfig{Topology: r.topology()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	r.publisher = p
	r.stored = func() []stored { return r.storedInKafka(t) }
	r.protocol = func() tap { return newKafkaTap(r.stored()) }
	return r
}

func (p place) subscribeKafka(ctx context.Context, h outbox.Handler, s settings) error {
	return kafka.Subscribe(ctx, p.cluster(), h, kafka.SubscribeConfig{
		Topology: p.topology(), Concurrency: s.concurrency, CommitInterval: 20 * time.Millisecond, Stats: s.stats, Logger: s.logger(),
	})
}

func (r *rig) storedInKafka(t *testing.T) (all []stored) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.Addr), kgo.ConsumeTopics(r.Name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, r.Name)
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	ends.Each(func(o kadm.ListedOffset) { want += int(o.Offset) })
	for len(all) < want {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			for _, h := range rec.Headers {
				if h.Key == "ce_id" {
					all = append(all, stored{rec.Partition, rec.Offset, string(h.Value)})
				}
			}
		})
	}
	return all
}
