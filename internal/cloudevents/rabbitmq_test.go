package cloudevents

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/internal/rabbitserver"
	"github.com/outboxgen/outboxgen/runtime/broker/rabbitmq"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

var rabbitCarrier = carrier{
	name:  "rabbitmq",
	names: names{prefix: "cloudEvents:", contentType: "content-type"},
	send: func(t *testing.T, e outbox.Envelope) wire {
		server, channel, topology := rabbitPlace(t)
		p, err := rabbitmq.NewPublisher(server, rabbitmq.PublisherConfig{Topology: topology})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if err := p.Publish(t.Context(), []outbox.Envelope{e})[0]; err != nil {
			t.Fatal(err)
		}
		m, there, err := channel.Get(topology.Consumers[0].Queue, true)
		if err != nil || !there {
			t.Fatalf("nothing in the queue: %v", err)
		}
		w := wire{headers: map[string]string{"content-type": m.ContentType}, body: m.Body}
		for name, value := range m.Headers {
			w.headers[name] = fmt.Sprint(value)
		}
		return w
	},
	receive: func(t *testing.T, ctx context.Context, w wire, h outbox.Handler) error {
		server, channel, topology := rabbitPlace(t)
		m := amqp.Publishing{Headers: make(amqp.Table), ContentType: w.headers["content-type"], Body: w.body}
		for name, value := range w.headers {
			if name != "content-type" { // a property
				m.Headers[name] = value
			}
		}
		if err := channel.PublishWithContext(ctx, "", topology.Consumers[0].Queue, true, false, m); err != nil {
			return err
		}
		return rabbitmq.Subscribe(ctx, server, h, rabbitmq.SubscribeConfig{Topology: topology})
	},
}

// The tests share a server, since it takes seconds to start; each has a place of its own.
var (
	rabbitServer = sync.OnceValues(func() (*rabbitserver.Server, error) {
		return rabbitserver.Start(context.Background(), rabbitserver.Config{})
	})
	rabbitPlaces atomic.Int64
)

func TestMain(m *testing.M) {
	code := m.Run()
	if server, err := rabbitServer(); err == nil {
		server.Close()
	}
	os.Exit(code)
}

// rabbitPlace has an exchange, and a queue for the catcher.
func rabbitPlace(t *testing.T) (rabbitmq.Connector, *amqp.Channel, outbox.Topology) {
	t.Helper()
	server, err := rabbitServer()
	if err != nil {
		t.Fatal(err)
	}
	connector := rabbitmq.Connector{URLs: []string{server.URL()}}
	name := fmt.Sprintf("cloudevents-%d", rabbitPlaces.Add(1))
	topology := outbox.Topology{
		Service:   name,
		Events:    []outbox.EventTopology{{Type: brokersuite.TypeA, Exchange: name, Key: brokersuite.TypeA}},
		Consumers: []outbox.ConsumerTopology{{Name: "catcher", Queue: name, Events: []string{brokersuite.TypeA}}},
	}
	if _, err := rabbitmq.Ensure(t.Context(), connector, topology, rabbitmq.EnsureConfig{Create: true}); err != nil {
		t.Fatal(err)
	}
	conn, err := amqp.Dial(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return connector, channel, topology
}
