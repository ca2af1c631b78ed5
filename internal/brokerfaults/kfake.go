package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outboxgen/outboxgen/runtime/broker/kafka"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// kfakeBroker is franz-go's Kafka in memory, where there is no Java. It can't be killed.
type kfakeBroker struct{ cluster *kfake.Cluster }

func (b *kfakeBroker) scenarios() []scenario {
	return []scenario{cut, blink, {name: "replicas", topology: topology(), script: b.breakInSync, want: inSyncWant}}
}

func (b *kfakeBroker) start(context.Context) (err error) {
	b.cluster, err = kfake.NewCluster(kfake.NumBrokers(kafkaServers))
	return err
}

var errInMemory = errors.New("kfake is in this process: it can't be killed")

func (b *kfakeBroker) kill() error                   { return errInMemory }
func (b *kfakeBroker) restart(context.Context) error { return errInMemory }

func (b *kfakeBroker) close() {
	if b.cluster != nil {
		b.cluster.Close()
	}
}

// breakInSync has every record refused as with too few replicas.
func (b *kfakeBroker) breakInSync(ctx context.Context, r *run) error {
	if err := r.gate.shut(ctx, r.events/2); err != nil {
		return err
	}
	r.record.breaks()
	fault := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	r.gate.open()
	if err := r.awaitOutage(ctx, fewInSync); err != nil {
		return err
	}
	r.record.mends()
	fault.Remove()
	return nil
}

func (b *kfakeBroker) ensure(ctx context.Context, t outbox.Topology) error {
	return ensureTopics(ctx, b.cluster.ListenAddrs(), t, kafka.EnsureConfig{Create: true, Partitions: 3})
}

func (b *kfakeBroker) publisher(p *proxy, t outbox.Topology, ack time.Duration) (outbox.Publisher, func(), error) {
	return kafkaPublisher(b.cluster.ListenAddrs(), p, t, ack)
}

func (b *kfakeBroker) holdings(ctx context.Context, t outbox.Topology) ([]holding, error) {
	return readTopic(ctx, b.cluster.ListenAddrs(), t.Events[0].Topic)
}
