package main

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/internal/natsserver"
	"github.com/outboxgen/outboxgen/runtime/broker/natsjs"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// makePublisher makes a publisher for one relay, and a function that ends it.
type makePublisher func(ctx context.Context, ordered bool) (outbox.Publisher, func(), error)

// confirmAtOnce is a publisher without a broker.
type confirmAtOnce struct{}

func (confirmAtOnce) Publish(_ context.Context, messages []outbox.Envelope) []error {
	return make([]error, len(messages))
}

func atOnce(context.Context, bool) (outbox.Publisher, func(), error) {
	return confirmAtOnce{}, func() {}, nil
}

// broker is a NATS server with JetStream inside this process, reached over TCP.
type broker struct{ server *natsserver.Server }

const stream = "bench"

func startBroker(ctx context.Context) (*broker, error) {
	server, err := natsserver.Start(natsserver.Config{})
	if err != nil {
		return nil, err
	}
	b := &broker{server: server}
	err = b.do(ctx, func(js jetstream.JetStream) error {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{stream + ".>"}})
		return err
	})
	if err != nil {
		server.Close()
		return nil, err
	}
	return b, nil
}

func (b *broker) do(ctx context.Context, fn func(jetstream.JetStream) error) error {
	nc, err := nats.Connect(b.server.URL())
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return fn(js)
}

// empty deletes what was published.
func (b *broker) empty(ctx context.Context) error {
	return b.do(ctx, func(js jetstream.JetStream) error {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		return s.Purge(ctx)
	})
}

// publisher is a makePublisher.
func (b *broker) publisher(_ context.Context, ordered bool) (outbox.Publisher, func(), error) {
	nc, err := nats.Connect(b.server.URL(), natsjs.ConnOptions()...)
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	p, err := natsjs.NewPublisher(js, natsjs.PublisherConfig{Stream: stream, SubjectPrefix: stream, Unordered: !ordered})
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return p, func() { p.Close(); nc.Close() }, nil
}

// tracker knows when events were committed and confirmed.
type tracker struct {
	mu     sync.Mutex
	events map[uuid.UUID]*tracked
	left   int
	done   chan struct{} // closed when all are confirmed
}

type tracked struct{ committed, confirmed time.Time }

func (t *tracker) committed(id uuid.UUID, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events[id].committed = at
}

func (t *tracker) confirmed(messages []outbox.Envelope, errs []error, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, m := range messages {
		e := t.events[m.ID]
		if errs[i] != nil || e == nil || !e.confirmed.IsZero() {
			continue // a repeat isn't an event's first confirm
		}
		e.confirmed = at
		if t.left--; t.left == 0 {
			close(t.done)
		}
	}
}

// trackedPublisher notes when Publish returned.
type trackedPublisher struct {
	outbox.Publisher
	tracker *tracker
}

func (p trackedPublisher) Publish(ctx context.Context, messages []outbox.Envelope) []error {
	errs := p.Publisher.Publish(ctx, messages)
	p.tracker.confirmed(messages, errs, time.Now())
	return errs
}
