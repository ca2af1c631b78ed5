package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// handler is an outbox.Handler made of functions.
type handler struct {
	name   string
	limits outbox.Limits
	handle func(ctx context.Context, e outbox.Envelope) error
	park   func(m outbox.Unreadable) error
}

func (h handler) Name() string          { return h.name }
func (h handler) EventTypes() []string  { return []string{brokersuite.TypeA, brokersuite.TypeB} }
func (h handler) Limits() outbox.Limits { return h.limits }

func (h handler) Handle(ctx context.Context, e outbox.Envelope) (outbox.Handling, error) {
	if err := h.handle(ctx, e); err != nil {
		return outbox.NotHandled, err
	}
	return outbox.Applied, nil
}

func (h handler) Park(_ context.Context, m outbox.Unreadable) error { return h.park(m) }

// seen counts the deliveries of each event.
type seen struct {
	mu sync.Mutex
	n  map[uuid.UUID]int
}

func (s *seen) add(id uuid.UUID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == nil {
		s.n = make(map[uuid.UUID]int)
	}
	s.n[id]++
	return s.n[id]
}

func (s *seen) has(id uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n[id] > 0
}

// One poison message holds up nobody and comes no oftener than it may.
func TestPoisonAmongTwoThousand(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const attempts = 5
	sent := eventsOf(2000)
	poison := sent[100].ID
	if n := count(publishAll(t, r.publisher(PublisherConfig{}), sent, nil)); n[""] != len(sent) {
		t.Fatalf("%v", n)
	}
	var got seen
	var last time.Time
	var gap time.Duration
	parked := make(chan struct{})
	stats := new(outbox.SubscribeStats)
	cfg := r.subscribeConfig()
	cfg.Stats = stats
	r.subscribe(handler{name: "projector", handle: func(_ context.Context, e outbox.Envelope) error {
		// Calls don't overlap: one message at a time.
		if !last.IsZero() {
			gap = max(gap, time.Since(last))
		}
		last = time.Now()
		if n := got.add(e.ID); e.ID == poison {
			if n < attempts {
				return errors.New("poison")
			}
			close(parked) // as a consumer that parks it, which is a success
		}
		return nil
	}}, cfg)
	receive(t, "the poison message is parked", parked)
	waitUntil(t, "everything is acknowledged", func() bool { return r.unacked("projector") == 0 })
	for _, e := range sent {
		if want := map[bool]int{true: attempts, false: 1}[e.ID == poison]; got.n[e.ID] != want {
			t.Errorf("an event was delivered %d times, want %d", got.n[e.ID], want)
		}
	}
	if n := stats.Delivered.Load(); n > int64(len(sent)+attempts) {
		t.Errorf("%d deliveries: a storm", n)
	}
	if n := stats.Redelivered.Load(); n != attempts-1 {
		t.Errorf("%d redeliveries noted, want %d", n, attempts-1)
	}
	if gap > time.Second {
		t.Errorf("the others waited for %v", gap)
	}
}

// A message that fails waits for as long as the handler says, at the broker.
func TestWaitsAtTheBroker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := publishOne(t, r.publisher(PublisherConfig{}), brokersuite.Event("a", 1)); err != nil {
		t.Fatal(err)
	}
	calls := make(chan time.Time, 10)
	var n atomic.Int64
	r.subscribe(handler{name: "projector", handle: func(_ context.Context, e outbox.Envelope) error {
		calls <- time.Now()
		if n.Add(1) == 1 {
			return &outbox.HandlingError{Kind: outbox.FailureFailed, Again: 750 * time.Millisecond, Cause: errors.New("once")}
		}
		return nil
	}}, r.subscribeConfig())
	first := receive(t, "the first delivery", calls)
	waiting := retryQueue(r.queue("projector"), 500*time.Millisecond) // 750 ms, rounded down
	waitUntil(t, "it waits in its queue, and in no other", func() bool {
		return r.held(waiting) == 1 && r.held(r.queue("projector")) == 0
	})
	if wait := receive(t, "the second delivery", calls).Sub(first); wait < 450*time.Millisecond || wait > 5*time.Second {
		t.Errorf("it came again after %v, want about 500ms", wait)
	}
	waitUntil(t, "it is acknowledged", func() bool { return r.unacked("projector") == 0 })
}

func TestUnreadableIsParked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	channel := r.channel()
	err := channel.Publish("", r.queue("projector"), true, false, amqp.Publishing{
		DeliveryMode: amqp.Persistent, Body: []byte("no event"), ContentType: "text/plain", MessageId: "m1", UserId: "guest",
		Headers: amqp.Table{"note": "kept", "CC": []any{r.queue("first")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	parks := make(chan outbox.Unreadable, 10)
	var n atomic.Int64
	stats := new(outbox.SubscribeStats)
	cfg := r.subscribeConfig()
	cfg.Stats = stats
	r.subscribe(handler{name: "projector", park: func(m outbox.Unreadable) error {
		parks <- m
		if n.Add(1) < 3 {
			return errors.New("not yet")
		}
		return nil
	}}, cfg)
	first := receive(t, "it is parked", parks)
	if string(first.Body) != "no event" || first.Headers["note"] != "kept" || first.Headers["content-type"] != "text/plain" || first.Headers["message-id"] != "m1" {
		t.Errorf("parked as %q with headers %v", first.Body, first.Headers)
	}
	wantIs(t, first.Reason, outbox.ErrNotAnEvent)
	for range 2 {
		if again := receive(t, "it is parked again", parks); fmt.Sprint(again) != fmt.Sprint(first) {
			t.Errorf("a repeat differs: %v, want %v", again, first)
		}
	}
	waitUntil(t, "it is acknowledged", func() bool { return r.unacked("projector") == 0 })
	if stats.Unreadable.Load() != 1 {
		t.Errorf("%d unreadable messages counted, want 1", stats.Unreadable.Load())
	}
	// It came with a CC: what the sender's message did, ours must not repeat.
	if held := r.held(r.queue("first")); held != 1 {
		t.Errorf("the queue that CC names holds %d messages, want the sender's alone", held)
	}
}

// RabbitMQ 4 drops a message that was taken back 20 times, unless it is told otherwise, and
// 3.x one that was taken back once if it is told the same.
func TestTakenBackOften(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := publishOne(t, r.publisher(PublisherConfig{}), brokersuite.Event("a", 1)); err != nil {
		t.Fatal(err)
	}
	channel := r.channel()
	deliveriesOf, err := channel.Consume(r.queue("projector"), "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 30; n++ {
		d := receive(t, "it is delivered", deliveriesOf)
		if got := deliveries(d); got != n {
			t.Errorf("delivery %d is counted as %d", n, got)
		}
		if err := d.Reject(true); err != nil {
			t.Fatal(err)
		}
	}
}

// A queue to wait in that is deleted meanwhile ends the subscription: otherwise what fails would
// fill the window. The message stays in the consumer's queue.
func TestRetryQueueDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	queue := r.queue("projector")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	entered, release := make(chan struct{}, 100), make(chan struct{})
	result := make(chan error, 1)
	go func() {
		result <- Subscribe(ctx, r.via(), handler{name: "projector", handle: func(context.Context, outbox.Envelope) error {
			entered <- struct{}{}
			<-release
			return errors.New("always")
		}}, r.subscribeConfig())
	}()
	if err := publishOne(t, r.publisher(PublisherConfig{}), brokersuite.Event("a", 1)); err != nil {
		t.Fatal(err)
	}
	receive(t, "the handler is called", entered)
	gone := retryQueue(queue, retryDelays()[0])
	r.delete(gone)
	close(release)
	err := receive(t, "Subscribe notices that the queue was deleted", result)
	wantIs(t, err, ErrNoQueue)
	if err == nil || !strings.Contains(err.Error(), gone) {
		t.Errorf("%v, want the queue's name", err)
	}
	waitUntil(t, "the message is still there", func() bool { return r.held(queue) == 1 })

	r.ensure(r.topology)
	r.subscribe(handler{name: "projector", handle: func(context.Context, outbox.Envelope) error { return nil }}, r.subscribeConfig())
	waitUntil(t, "it is acknowledged", func() bool { return r.unacked("projector") == 0 })
}

func TestNoQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := handler{name: "projector", handle: func(context.Context, outbox.Envelope) error { return nil }}
	queue := r.queue("projector")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	cfg := r.subscribeConfig()
	cfg.RetryDelays = []time.Duration{77 * time.Millisecond}
	err := Subscribe(ctx, r.via(), h, cfg)
	wantIs(t, err, ErrNoQueue)
	if err == nil || !strings.Contains(err.Error(), queue+".retry.77ms") {
		t.Errorf("%v, want the queue's name", err)
	}

	result := make(chan error, 1)
	go func() { result <- Subscribe(ctx, r.via(), h, r.subscribeConfig()) }()
	waitUntil(t, "it reads", func() bool { return r.consumers(queue) == 1 })
	r.delete(queue)
	wantIs(t, receive(t, "Subscribe notices that its queue was deleted", result), ErrNoQueue)
}

// A queue that can't be reached is there all the same: the subscription goes on trying.
func TestQueueOutOfReach(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name := r.queue("locked")
	if _, err := r.channel().QueueDeclare(name, false, false, true, false, nil); err != nil { // exclusive
		t.Fatal(err)
	}
	conn, err := r.connector().withDefaults().dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.cut()
	if err := findQueue(conn, name); err == nil || errors.Is(err, ErrNoQueue) {
		t.Errorf("another connection's queue: %v", err)
	}
	wantIs(t, findQueue(conn, r.queue("none")), ErrNoQueue)
}
