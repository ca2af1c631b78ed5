package verify

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/runtime/broker/natsjs"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// duplicateWindow is the shortest that NATS takes: repeats must come through.
const duplicateWindow = 100 * time.Millisecond

type natsCarrier struct {
	place place
	conn  *nats.Conn
	js    jetstream.JetStream
}

func openNATS(p place) (*natsCarrier, error) {
	conn, err := nats.Connect("nats://"+p.Addr, natsjs.ConnOptions(
		nats.RetryOnFailedConnect(true), nats.ReconnectWait(50*time.Millisecond), nats.PingInterval(time.Second),
	)...)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &natsCarrier{place: p, conn: conn, js: js}, nil
}

func (c *natsCarrier) publisher() (outbox.Publisher, error) {
	return natsjs.NewPublisher(c.js, natsjs.PublisherConfig{Topology: c.place.topology(), AckTimeout: ackTimeout})
}

func (c *natsCarrier) subscribe(ctx context.Context, h outbox.Handler, log *slog.Logger) error {
	return natsjs.Subscribe(ctx, c.js, h, natsjs.SubscribeConfig{
		Topology: c.place.topology(), AckWait: redelivery, AckTimeout: ackTimeout,
		Backoff: 100 * time.Millisecond, MaxBackoff: retryMax, Logger: log,
	})
}

func (c *natsCarrier) close() { c.conn.Close() }

func (c *natsCarrier) ensure(ctx context.Context) error {
	_, err := natsjs.Ensure(ctx, c.js, c.place.topology(), natsjs.EnsureConfig{
		Create: true, Duplicates: duplicateWindow, AckWait: redelivery,
	})
	return err
}
