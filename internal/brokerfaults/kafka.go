package main

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outboxgen/outboxgen/internal/kafkaserver"
	"github.com/outboxgen/outboxgen/runtime/broker/kafka"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

var fewInSync = cause{"too few replicas in sync", outbox.FailureUnavailable, func(err error) bool {
	return errors.Is(err, kerr.NotEnoughReplicas)
}}

// inSyncWant is expected when the in-sync set is broken.
var inSyncWant = expectation{failures: outageKinds, causes: []cause{fewInSync}}

// kafkaServers is how many brokers a cluster has, and how many replicas a partition.
const kafkaServers = 3

// kafkaBroker is a real Apache Kafka.
type kafkaBroker struct {
	dir     string
	cluster *kafkaserver.Cluster
}

func (b *kafkaBroker) scenarios() []scenario {
	return []scenario{killed, cut, blink, {name: "replicas", topology: topology(), script: b.breakInSync, want: inSyncWant}}
}

func (b *kafkaBroker) start(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "outboxgen-brokerfaults-"); err != nil {
		return err
	}
	b.cluster, err = kafkaserver.Start(ctx, b.dir, kafkaServers)
	return err
}

// kill kills all of them.
func (b *kafkaBroker) kill() error {
	for i := range kafkaServers {
		b.cluster.KillBroker(i)
	}
	return nil
}

func (b *kafkaBroker) restart(context.Context) error { return b.startBrokers(0, 1, 2) }

func (b *kafkaBroker) startBrokers(which ...int) error {
	errs := make([]error, len(which))
	var starting sync.WaitGroup
	for n, i := range which {
		starting.Go(func() { errs[n] = b.cluster.StartBroker(i) })
	}
	starting.Wait()
	return errors.Join(errs...)
}

func (b *kafkaBroker) close() {
	if b.cluster != nil {
		b.cluster.Stop()
	}
	_ = os.RemoveAll(b.dir) // below the system's own temporary folder
}

// breakInSync kills two of three replicas, where two have to be in sync.
func (b *kafkaBroker) breakInSync(ctx context.Context, r *run) error {
	if err := r.gate.shut(ctx, r.events/2); err != nil {
		return err
	}
	r.record.breaks()
	b.cluster.KillBroker(1) // the first one is the controller, too
	b.cluster.KillBroker(2)
	r.gate.open()
	if err := r.awaitOutage(ctx, fewInSync); err != nil {
		return err
	}
	r.record.mends()
	return b.startBrokers(1, 2)
}

func (b *kafkaBroker) ensure(ctx context.Context, t outbox.Topology) error {
	return ensureTopics(ctx, b.cluster.Brokers(), t, kafka.EnsureConfig{Create: true, Partitions: 3})
}

func (b *kafkaBroker) publisher(p *proxy, t outbox.Topology, ack time.Duration) (outbox.Publisher, func(), error) {
	return kafkaPublisher(b.cluster.Brokers(), p, t, ack)
}

func (b *kafkaBroker) holdings(ctx context.Context, t outbox.Topology) ([]holding, error) {
	return readTopic(ctx, b.cluster.Brokers(), t.Events[0].Topic)
}

func kafkaPublisher(brokers []string, p *proxy, t outbox.Topology, ack time.Duration) (outbox.Publisher, func(), error) {
	cluster := kafka.Cluster{Brokers: brokers, Options: []kgo.Opt{kgo.Dialer(p.dial)}}
	publisher, err := kafka.NewPublisher(cluster, kafka.PublisherConfig{Topology: t, AckTimeout: ack})
	if err != nil {
		return nil, nil, err
	}
	return publisher, publisher.Close, nil
}
