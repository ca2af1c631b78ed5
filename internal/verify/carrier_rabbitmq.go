package verify

import (
	"context"
	"log/slog"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/runtime/broker/rabbitmq"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

type rabbitCarrier struct {
	place place
	pub   *rabbitmq.Publisher
}

func openRabbit(p place) *rabbitCarrier { return &rabbitCarrier{place: p} }

// connector has a heartbeat by which the broker gives up who stands still for twice as long.
func (p place) connector(heartbeat time.Duration) rabbitmq.Connector {
	return rabbitmq.Connector{
		URLs:   []string{"amqp://guest:guest@" + p.Addr + "/"},
		Config: amqp.Config{Heartbeat: heartbeat},
	}
}

// retryDelays are the waits that the broker has queues for.
func retryDelays() []time.Duration {
	return []time.Duration{50 * time.Millisecond, 400 * time.Millisecond}
}

func (c *rabbitCarrier) publisher() (p outbox.Publisher, err error) {
	c.pub, err = rabbitmq.NewPublisher(c.place.connector(redelivery/2), rabbitmq.PublisherConfig{
		Topology: c.place.topology(), AckTimeout: ackTimeout, Backoff: 50 * time.Millisecond, MaxBackoff: outageMax,
	})
	return c.pub, err
}

func (c *rabbitCarrier) subscribe(ctx context.Context, h outbox.Handler, log *slog.Logger) error {
	return rabbitmq.Subscribe(ctx, c.place.connector(redelivery/2), h, rabbitmq.SubscribeConfig{
		Topology: c.place.topology(), RetryDelays: retryDelays(),
		Backoff: 100 * time.Millisecond, MaxBackoff: retryMax, Logger: log,
	})
}

func (c *rabbitCarrier) close() {
	if c.pub != nil {
		c.pub.Close()
	}
}
