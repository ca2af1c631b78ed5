package cloudevents

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/internal/natsserver"
	"github.com/outboxgen/outboxgen/runtime/broker/natsjs"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

const (
	natsStream = "ORDERS"
	natsPrefix = "orders"
)

// The SDK's own module for NATS, protocol/nats_jetstream, doesn't decode percent, so that
// with it an aggregate's id that isn't plain ASCII arrives encoded.
var natsCarrier = carrier{
	name:  "natsjs",
	names: names{prefix: "ce-", percent: true},
	send: func(t *testing.T, e outbox.Envelope) wire {
		js := natsConn(t)
		p, err := natsjs.NewPublisher(js, natsjs.PublisherConfig{Stream: natsStream, SubjectPrefix: natsPrefix})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if err := p.Publish(t.Context(), []outbox.Envelope{e})[0]; err != nil {
			t.Fatal(err)
		}
		stream, err := js.Stream(t.Context(), natsStream)
		if err != nil {
			t.Fatal(err)
		}
		m, err := stream.GetMsg(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		w := wire{headers: make(map[string]string), body: m.Data}
		for name, values := range m.Header {
			w.headers[name] = values[0]
		}
		return w
	},
	receive: func(t *testing.T, ctx context.Context, w wire, h outbox.Handler) error {
		js := natsConn(t)
		m := &nats.Msg{Subject: natsPrefix + "." + brokersuite.TypeA, Header: make(nats.Header), Data: w.body}
		for name, value := range w.headers {
			m.Header[name] = []string{value}
		}
		if _, err := js.PublishMsg(ctx, m); err != nil {
			return err
		}
		return natsjs.Subscribe(ctx, js, h, natsjs.SubscribeConfig{Stream: natsStream, SubjectPrefix: natsPrefix})
	},
}

// natsConn connects to a server of its own that has the stream.
func natsConn(t *testing.T) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(natsserver.StartT(t, natsserver.Config{}).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	cfg := jetstream.StreamConfig{Name: natsStream, Subjects: []string{natsPrefix + ".>"}}
	if _, err := js.CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return js
}
