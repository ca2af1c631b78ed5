package verify

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outboxgen/outboxgen/runtime/broker/kafka"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

type kafkaCarrier struct {
	place place
	pub   *kafka.Publisher
}

func openKafka(p place) *kafkaCarrier { return &kafkaCarrier{place: p} }

// cluster dials the place's address whatever the brokers say of theirs, so that a proxy
// may stand in front of the one there is.
func (p place) cluster() kafka.Cluster {
	return kafka.Cluster{Brokers: []string{p.Addr}, Options: []kgo.Opt{
		kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, p.Addr)
		}),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.HeartbeatInterval(redelivery / 10),
		kgo.SessionTimeout(redelivery),
	}}
}

func (c *kafkaCarrier) publisher() (p outbox.Publisher, err error) {
	c.pub, err = kafka.NewPublisher(c.place.cluster(), kafka.PublisherConfig{Topology: c.place.topology(), AckTimeout: ackTimeout})
	return c.pub, err
}

func (c *kafkaCarrier) subscribe(ctx context.Context, h outbox.Handler, log *slog.Logger) error {
	return kafka.Subscribe(ctx, c.place.cluster(), h, kafka.SubscribeConfig{
		Topology: c.place.topology(), CommitInterval: 100 * time.Millisecond, CommitTimeout: ackTimeout,
		Backoff: 100 * time.Millisecond, MaxBackoff: retryMax, Logger: log,
	})
}

func (c *kafkaCarrier) close() {
	if c.pub != nil {
		c.pub.Close()
	}
}
