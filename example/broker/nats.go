package broker

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/broker/natsjs"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// ackWait is how long a dead consumer's messages wait for another. It is above the consumers'
// timeout in events.yaml.
const ackWait = 10 * time.Second

type natsBroker struct {
	conn *nats.Conn
	js   jetstream.JetStream
}

func openNATS(url string) (Broker, error) {
	conn, err := nats.Connect(url, natsjs.ConnOptions(nats.RetryOnFailedConnect(true))...)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &natsBroker{conn: conn, js: js}, nil
}

func (b *natsBroker) Ensure(ctx context.Context) error {
	_, err := natsjs.Ensure(ctx, b.js, orderevents.Topology(), natsjs.EnsureConfig{
		Create:  true,
		AckWait: ackWait,
	})
	return err
}

func (b *natsBroker) Publisher() (outbox.Publisher, error) {
	return natsjs.NewPublisher(b.js, natsjs.PublisherConfig{Topology: orderevents.Topology()})
}

func (b *natsBroker) Subscribe(ctx context.Context, h outbox.Handler, stats *outbox.SubscribeStats) error {
	return natsjs.Subscribe(ctx, b.js, h, natsjs.SubscribeConfig{
		Topology: orderevents.Topology(),
		AckWait:  ackWait,
		Stats:    stats,
	})
}

func (b *natsBroker) Close() { b.conn.Close() }
