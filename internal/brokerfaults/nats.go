package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/internal/throwaway"
	"github.com/outboxgen/outboxgen/runtime/broker/natsjs"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// natsBroker is a NATS server in a process of its own.
type natsBroker struct {
	dir   string
	port  int
	child *throwaway.Process
}

// duplicateWindow is shorter than any lease, so that repeats show.
const duplicateWindow = 500 * time.Millisecond

var streamFull = cause{"a full stream", outbox.FailureUnavailable, func(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && strings.Contains(api.Description, "maximum messages exceeded")
}}

func (b *natsBroker) scenarios() []scenario {
	return []scenario{killed, cut, {
		name: "full", topology: topology(), script: b.fillAndEnlarge,
		want: expectation{failures: outageKinds, causes: []cause{streamFull}},
	}}
}

func (b *natsBroker) start(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "outboxgen-brokerfaults-"); err != nil {
		return err
	}
	if b.port, err = throwaway.FreePort(); err != nil {
		return err
	}
	return b.restart(ctx)
}

func (b *natsBroker) addr() string { return fmt.Sprint("127.0.0.1:", b.port) }

func (b *natsBroker) kill() error {
	b.child.Kill()
	return nil
}

func (b *natsBroker) restart(ctx context.Context) (err error) {
	b.child, err = startChild(ctx, b.dir, b.port)
	return err
}

func (b *natsBroker) close() {
	if b.child != nil {
		b.child.Kill()
	}
	_ = os.RemoveAll(b.dir) // below the system's own temporary folder
}

// with runs fn on a connection of its own.
func (b *natsBroker) with(fn func(js jetstream.JetStream) error) error {
	conn, err := nats.Connect("nats://" + b.addr())
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	return fn(js)
}

func (b *natsBroker) ensure(ctx context.Context, t outbox.Topology) error {
	return b.with(func(js jetstream.JetStream) error {
		_, err := natsjs.Ensure(ctx, js, t, natsjs.EnsureConfig{Create: true, Duplicates: duplicateWindow})
		return err
	})
}

func (b *natsBroker) publisher(p *proxy, t outbox.Topology, ack time.Duration) (outbox.Publisher, func(), error) {
	addr, err := p.addr(b.addr())
	if err != nil {
		return nil, nil, err
	}
	conn, err := nats.Connect("nats://"+addr, natsjs.ConnOptions(nats.ReconnectWait(100*time.Millisecond), nats.IgnoreDiscoveredServers())...)
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	publisher, err := natsjs.NewPublisher(js, natsjs.PublisherConfig{Topology: t, AckTimeout: ack})
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return publisher, func() { publisher.Close(); conn.Close() }, nil
}

// fillAndEnlarge bounds the stream at half of the events, and lifts the bound when the
// relays pause for it.
func (b *natsBroker) fillAndEnlarge(ctx context.Context, r *run) error {
	if err := r.gate.shut(ctx, r.events/4); err != nil {
		return err
	}
	r.record.breaks()
	if err := b.bound(ctx, r.topology, int64(r.events/2)); err != nil {
		return err
	}
	r.gate.open()
	if err := r.awaitOutage(ctx, streamFull); err != nil {
		return err
	}
	r.record.mends()
	return b.bound(ctx, r.topology, -1)
}

func (b *natsBroker) bound(ctx context.Context, t outbox.Topology, messages int64) error {
	return b.with(func(js jetstream.JetStream) error {
		stream, err := js.Stream(ctx, t.Events[0].Stream)
		if err != nil {
			return err
		}
		cfg := stream.CachedInfo().Config
		cfg.MaxMsgs = messages
		_, err = js.UpdateStream(ctx, cfg)
		return err
	})
}

func (b *natsBroker) holdings(ctx context.Context, t outbox.Topology) (all []holding, err error) {
	name := t.Events[0].Stream
	err = b.with(func(js jetstream.JetStream) error {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return err
		}
		ids, err := readStream(ctx, stream)
		all = []holding{{name: "stream " + name, ids: ids}}
		return err
	})
	return all, err
}

func readStream(ctx context.Context, stream jetstream.Stream) ([]uuid.UUID, error) {
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{HeadersOnly: true})
	if err != nil {
		return nil, err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, err
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	var ids []uuid.UUID
	for range stream.CachedInfo().State.Msgs {
		m, err := messages.Next()
		if err != nil {
			return nil, err
		}
		id, err := uuid.Parse(m.Headers().Get(nats.MsgIdHdr))
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}
