package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/natsserver"
	"github.com/outboxgen/outboxgen/runtime/broker/natsjs"
)

const streamName = "ORDERS" // as in events.yaml

type natsBroker struct {
	server *natsserver.Server
	conn   *nats.Conn
	js     jetstream.JetStream
}

func startNATS(context.Context, *printer) (brokerServer, error) {
	server, err := natsserver.Start(natsserver.Config{})
	if err != nil {
		return nil, err
	}
	b := &natsBroker{server: server}
	if b.conn, err = nats.Connect(server.URL()); err == nil {
		b.js, err = jetstream.New(b.conn)
	}
	if err != nil {
		b.close()
		return nil, fmt.Errorf("connect to nats: %w", err)
	}
	return b, nil
}

func (b *natsBroker) url() string { return b.server.URL() }

func (b *natsBroker) describe() string {
	return fmt.Sprintf("NATS with JetStream on %s, stream %s", b.server.Addr(), streamName)
}

func (b *natsBroker) prepare(ctx context.Context) error {
	_, err := b.js.CreateStream(ctx, jetstream.StreamConfig{
		Name:     streamName,
		Subjects: []string{orderevents.Service + ".>"},
		// The shortest that NATS takes. A stream drops what it has seen within this
		// window, two minutes by default; here the repeats must come through, for
		// it is the consumers' dedup rows that are to be seen at work.
		Duplicates: 100 * time.Millisecond,
	})
	if err != nil {
		return fmt.Errorf("create the stream: %w", err)
	}
	return nil
}

func (b *natsBroker) unacked(ctx context.Context, consumer string) (int, error) {
	place, _ := orderevents.Topology().Consumer(consumer)
	c, err := b.js.Consumer(ctx, streamName, natsjs.DurableName(place.Queue))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return 1, nil // its process is still starting
	}
	if err != nil {
		return 0, err
	}
	return int(c.CachedInfo().NumPending) + c.CachedInfo().NumAckPending, nil
}

func (b *natsBroker) messages(ctx context.Context) ([]streamMessage, error) {
	stream, err := b.js.Stream(ctx, streamName)
	if err != nil {
		return nil, err
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{HeadersOnly: true})
	if err != nil {
		return nil, err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, err
	}
	defer messages.Stop()
	var all []streamMessage
	for range stream.CachedInfo().State.Msgs {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, err
		}
		h := m.Headers()
		all = append(all, newStreamMessage(func(name string) string { return h.Get("ce-" + name) }))
	}
	return all, nil
}

func (b *natsBroker) close() {
	if b.conn != nil {
		b.conn.Close()
	}
	b.server.Close()
}

// newStreamMessage reads a message's CloudEvents attributes. What is no number is
// judged as 0.
func newStreamMessage(attribute func(name string) string) streamMessage {
	version, _ := strconv.ParseInt(attribute("aggregateversion"), 10, 64)
	return streamMessage{
		EventID: attribute("id"), Type: attribute("type"), Order: attribute("subject"), Version: version,
	}
}
