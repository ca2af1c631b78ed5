package watermill

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// patience is how long the tests wait for what must happen.
const patience = 20 * time.Second

// publishFunc is a wrapped publisher.
type publishFunc func(topic string, m *message.Message) error

func (f publishFunc) Close() error { return nil }
func (f publishFunc) Publish(topic string, messages ...*message.Message) error {
	if len(messages) != 1 {
		panic("more than one message in a call")
	}
	return f(topic, messages[0])
}

// subscribeFunc is a wrapped subscriber.
type subscribeFunc func(ctx context.Context, topic string) (<-chan *message.Message, error)

func (f subscribeFunc) Close() error { return nil }
func (f subscribeFunc) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	return f(ctx, topic)
}

// handler hands every event to a function, and remembers what it parked.
type handler struct {
	handle func(ctx context.Context, e outbox.Envelope) error
	parked atomic.Int64
}

func newHandler(handle func(context.Context, outbox.Envelope) error) *handler {
	return &handler{handle: handle}
}

func (h *handler) Name() string          { return "projector" }
func (h *handler) EventTypes() []string  { return []string{brokersuite.TypeA, brokersuite.TypeB} }
func (h *handler) Limits() outbox.Limits { return outbox.Limits{} }

func (h *handler) Park(context.Context, outbox.Unreadable) error {
	h.parked.Add(1)
	return nil
}

func (h *handler) Handle(ctx context.Context, e outbox.Envelope) (outbox.Handling, error) {
	if err := h.handle(ctx, e); err != nil {
		return outbox.NotHandled, err
	}
	return outbox.Applied, nil
}

// subscribe runs Subscribe in the background until the test ends, or stop is called,
// which fails the test unless Subscribe returns nil.
func subscribe(t *testing.T, wrapped message.Subscriber, h outbox.Handler, cfg SubscribeConfig) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- Subscribe(ctx, wrapped, h, cfg) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := receive(t, "Subscribe returns when its context ends", result); err != nil {
			t.Errorf("Subscribe: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: not within %v", what, patience)
		panic("unreachable")
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// kinds are the results' kinds in words, "published" for nil.
func kinds(results []error) []string {
	var all []string
	for _, err := range results {
		if err == nil {
			all = append(all, "published")
			continue
		}
		all = append(all, outbox.FailureKindOf(err).String())
	}
	return all
}
