package consumerproof

import (
	"context"
	"sync"
	"testing"

	"github.com/outboxgen/outboxgen/internal/rabbitserver"
	"github.com/outboxgen/outboxgen/runtime/broker/rabbitmq"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// The tests share one server, since it takes seconds to start; each has a place of its own.
var (
	rabbitMu sync.Mutex
	rabbit   *rabbitserver.Server
)

func sharedRabbit(t *testing.T) *rabbitserver.Server {
	t.Helper()
	rabbitMu.Lock()
	defer rabbitMu.Unlock()
	if rabbit != nil {
		return rabbit
	}
	s, err := rabbitserver.Start(context.Background(), rabbitserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if !s.Private() {
		t.Fatalf("these tests put a proxy in front of the server: unset %s", rabbitserver.EnvVar)
	}
	rabbit = s
	return s
}

func stopRabbit() {
	if rabbit != nil {
		rabbit.Close()
	}
}

func (p place) connector() rabbitmq.Connector {
	return rabbitmq.Connector{URLs: []string{"amqp://guest:guest@" + p.Addr + "/"}}
}

func newRabbit(t *testing.T) *rig {
	t.Helper()
	r := &rig{place: newPlace("rabbitmq", sharedRabbit(t).Addr()), repeats: func() {}}
	_, err := rabbitmq.Ensure(t.Context(), r.connector(), r.topology(), rabbitmq.EnsureConfig{
		Create: true, RetryDelays: retryDelays(),
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := rabbitmq.NewPublisher(r.connector(), rabbitmq.PublisherConfig{Topology: r.topology()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	r.publisher = p
	r.waiting = new(waitingCopies)
	r.protocol = func() tap { return newAMQPTap(r.queue(), r.waiting) }
	return r
}

func (p place) subscribeRabbit(ctx context.Context, h outbox.Handler, s settings) error {
	return rabbitmq.Subscribe(ctx, p.connector(), h, rabbitmq.SubscribeConfig{
		Topology: p.topology(), Concurrency: s.concurrency, RetryDelays: retryDelays(), Stats: s.stats, Logger: s.logger(),
	})
}
