package watermill

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// Most Pub/Subs hand out one message after the other. A message that fails stays here,
// is never given back, and those behind it come after it.
func TestOneMessageAtATime(t *testing.T) {
	t.Parallel()
	b := newPubSub(t, 1)
	var mu sync.Mutex
	var applied []int64
	calls := make(map[int64]int)
	cfg := subscribeConfig()
	for version := range int64(10) {
		put(t, b, brokersuite.Event("a", version))
	}
	subscribe(t, b.subscriber("projector"), newHandler(func(_ context.Context, e outbox.Envelope) error {
		mu.Lock()
		defer mu.Unlock()
		v := e.AggregateVersion
		if calls[v]++; v%4 == 2 && calls[v] < 3 {
			return errors.New("not yet")
		}
		applied = append(applied, v)
		return nil
	}), cfg)
	eventually(t, "all are acknowledged", func() bool { return b.unacked("projector") == 0 })
	if want := []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(applied, want) {
		t.Errorf("applied %v, want %v", applied, want)
	}
	if n := b.nacks("projector", topic); n != 0 {
		t.Errorf("%d messages were given back", n)
	}
	if d, failed := cfg.Stats.Delivered.Load(), cfg.Stats.Failed.Load(); d != 10 || failed != 4 {
		t.Errorf("%d deliveries and %d failures, want 10 and 4", d, failed)
	}
}

// What waits for another try when ctx ends is given back, and comes to the next one.
func TestHeldMessageIsGivenBackAtTheEnd(t *testing.T) {
	t.Parallel()
	b := newPubSub(t, 10)
	failed := make(chan struct{})
	var once sync.Once
	cfg := subscribeConfig()
	cfg.Backoff, cfg.MaxBackoff = time.Hour, time.Hour
	stop := subscribe(t, b.subscriber("projector"), newHandler(func(context.Context, outbox.Envelope) error {
		once.Do(func() { close(failed) })
		return errors.New("not here")
	}), cfg)
	put(t, b, brokersuite.Event("a", 1))
	receive(t, "the handler fails", failed)
	stop()
	eventually(t, "it is given back", func() bool { return b.nacks("projector", topic) == 1 })

	subscribe(t, b.subscriber("projector"), newHandler(func(context.Context, outbox.Envelope) error { return nil }), subscribeConfig())
	eventually(t, "it is acknowledged", func() bool { return b.unacked("projector") == 0 })
}

// What waits for another try takes its place of Prefetch.
func TestPrefetch(t *testing.T) {
	t.Parallel()
	b := newPubSub(t, 100)
	for i := range 20 {
		put(t, b, brokersuite.Event(string(rune('a'+i)), 1))
	}
	cfg := subscribeConfig()
	cfg.Prefetch, cfg.Backoff, cfg.MaxBackoff = 3, time.Hour, time.Hour
	subscribe(t, b.subscriber("projector"), newHandler(func(context.Context, outbox.Envelope) error {
		return errors.New("not here")
	}), cfg)
	// One more is taken and waits for room.
	eventually(t, "as many as allowed are here", func() bool { return b.flight("projector", topic) >= 4 })
	time.Sleep(50 * time.Millisecond) // nothing tells that nothing happens
	if n := cfg.Stats.Delivered.Load(); n != 3 {
		t.Errorf("%d messages were taken, want 3", n)
	}
}

// Subscribe returns after the wrapped subscriber has seen the last acknowledgement, and
// ends the subscription after that.
func TestLastAcknowledgementIsPassedOn(t *testing.T) {
	t.Parallel()
	m, err := encode(brokersuite.Event("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	mctx, seen := context.WithCancel(context.Background())
	m.SetContext(mctx)
	ended := make(chan struct{})
	wrapped := subscribeFunc(func(ctx context.Context, _ string) (<-chan *message.Message, error) {
		out := make(chan *message.Message, 1)
		out <- m
		context.AfterFunc(ctx, func() { close(ended); close(out) })
		return out, nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	result := make(chan error, 1)
	cfg := subscribeConfig()
	go func() {
		result <- Subscribe(ctx, wrapped, newHandler(func(context.Context, outbox.Envelope) error { return nil }), cfg)
	}()
	receive(t, "it is acknowledged", m.Acked())
	cancel()
	select {
	case <-ended:
		t.Error("the subscription was ended before the acknowledgement was seen")
	case err := <-result:
		t.Fatalf("Subscribe returned before the acknowledgement was seen: %v", err)
	case <-time.After(50 * time.Millisecond): // nothing tells that nothing happens
	}
	seen()
	if err := receive(t, "Subscribe returns", result); err != nil {
		t.Error(err)
	}
	receive(t, "the subscription is ended", ended)
	if n := cfg.Stats.Acked.Load(); n != 1 {
		t.Errorf("%d acknowledgements are counted, want 1", n)
	}
}

func TestAcknowledgementNobodyTakes(t *testing.T) {
	t.Parallel()
	m, err := encode(brokersuite.Event("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	mctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	m.SetContext(mctx)
	var log bytes.Buffer
	cfg := subscribeConfig()
	cfg.AckTimeout, cfg.Logger = 20*time.Millisecond, slog.New(slog.NewTextHandler(&log, nil))
	stop := subscribe(t, subscribeFunc(func(context.Context, string) (<-chan *message.Message, error) {
		out := make(chan *message.Message, 1) // and it never ends
		out <- m
		return out, nil
	}), newHandler(func(context.Context, outbox.Envelope) error { return nil }), cfg)
	eventually(t, "the lost acknowledgement is counted", func() bool { return cfg.Stats.AckFailed.Load() == 1 })
	stop()
	for _, want := range []string{"has not taken its acknowledgement", "doesn't end its subscription"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
}

// A subscriber that never ends a message's context is waited for once, and told of once.
func TestSubscriberThatShowsNothing(t *testing.T) {
	t.Parallel()
	const events = 20
	wrapped := subscribeFunc(func(ctx context.Context, _ string) (<-chan *message.Message, error) {
		out := make(chan *message.Message)
		go func() {
			defer close(out)
			for version := range int64(events) {
				m, err := encode(brokersuite.Event("a", version))
				if err != nil {
					panic(err)
				}
				m.SetContext(ctx) // the subscription's
				out <- m
				<-m.Acked()
			}
			<-ctx.Done()
		}()
		return out, nil
	})
	var log bytes.Buffer
	cfg := subscribeConfig()
	cfg.Topic, cfg.AckTimeout = oneTopic, 20*time.Millisecond
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	stop := subscribe(t, wrapped, newHandler(func(context.Context, outbox.Envelope) error { return nil }), cfg)
	eventually(t, "all are acknowledged", func() bool { return cfg.Stats.Acked.Load()+cfg.Stats.AckFailed.Load() == events })
	stop()
	if n := cfg.Stats.AckFailed.Load(); n != 1 {
		t.Errorf("%d were waited for in vain, want 1", n)
	}
	if n := strings.Count(log.String(), "has not taken its acknowledgement"); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
}

// A handler that runs when ctx ends ends before its subscription, and its acknowledgement
// gets through.
func TestHandlersEndFirst(t *testing.T) {
	t.Parallel()
	b := newPubSub(t, 1)
	put(t, b, brokersuite.Event("a", 1))
	var subscribing context.Context
	wrapped := subscribeFunc(func(ctx context.Context, topic string) (<-chan *message.Message, error) {
		subscribing = ctx
		return b.subscriber("projector").Subscribe(ctx, topic)
	})
	entered, ending := make(chan struct{}), make(chan struct{})
	cfg := subscribeConfig()
	stop := subscribe(t, wrapped, newHandler(func(context.Context, outbox.Envelope) error {
		close(entered)
		<-ending
		select {
		case <-subscribing.Done():
			t.Error("the subscription has ended, and a handler runs")
		case <-time.After(200 * time.Millisecond): // longer than it takes to end one
		}
		return nil
	}), cfg)
	receive(t, "the handler is called", entered)
	close(ending)
	stop()
	if subscribing.Err() == nil {
		t.Error("the subscription hasn't ended: the test shows nothing")
	}
	if acked, failed := cfg.Stats.Acked.Load(), cfg.Stats.AckFailed.Load(); acked != 1 || failed != 0 {
		t.Errorf("%d acknowledged, %d could not be, want 1 and 0", acked, failed)
	}
	if n := b.unacked("projector"); n != 0 {
		t.Errorf("the broker lacks %d acknowledgements", n)
	}
}

func TestSubscriptionThatEndsByItself(t *testing.T) {
	t.Parallel()
	ended := make(chan *message.Message)
	close(ended)
	wrapped := subscribeFunc(func(ctx context.Context, topic string) (<-chan *message.Message, error) {
		if topic == brokersuite.TypeB {
			return ended, nil
		}
		out := make(chan *message.Message)
		context.AfterFunc(ctx, func() { close(out) })
		return out, nil
	})
	cfg := subscribeConfig()
	cfg.Topic = func(eventType string) string { return eventType }
	result := make(chan error, 1)
	go func() { result <- Subscribe(t.Context(), wrapped, newHandler(nil), cfg) }()
	if err := receive(t, "Subscribe returns", result); !errors.Is(err, ErrSubscriptionEnded) {
		t.Errorf("%v, want ErrSubscriptionEnded", err)
	}
}

// The second topic can't be subscribed to: the first one's subscription is ended.
func TestSubscribeFails(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	wrapped := subscribeFunc(func(ctx context.Context, topic string) (<-chan *message.Message, error) {
		if topic == brokersuite.TypeB {
			return nil, errDown
		}
		out := make(chan *message.Message)
		context.AfterFunc(ctx, func() { close(ended); close(out) })
		return out, nil
	})
	cfg := subscribeConfig()
	cfg.Topic = func(eventType string) string { return eventType }
	if err := Subscribe(t.Context(), wrapped, newHandler(nil), cfg); !errors.Is(err, errDown) {
		t.Errorf("%v, want the subscriber's error", err)
	}
	receive(t, "the first subscription is ended", ended)
}

// What isn't for the handler is acknowledged without it, whether it can be read or not;
// what can't be read and may be for it is parked.
func TestOthersEventsAreSkipped(t *testing.T) {
	t.Parallel()
	b := newPubSub(t, 1)
	other := brokersuite.Event("a", 1)
	other.Type = brokersuite.TypeOther
	put(t, b, other)
	foreign := message.NewMessage("", []byte("x"))
	foreign.Metadata = message.Metadata{"ce_specversion": "1.0", "ce_type": "somebody.elses", "ce_id": "7"}
	b.put(topic, foreign)
	structured := message.NewMessage("", []byte(`{"specversion":"1.0","id":"01890000-0000-7000-8000-000000000000","source":"s","type":"order.archived",
		"aggregateversion":1,"schemaversion":1,"data":{}}`))
	structured.Metadata = message.Metadata{"content-type": outbox.StructuredType}
	b.put(topic, structured)
	broken := message.NewMessage("", []byte("x"))
	broken.Metadata = message.Metadata{"ce_specversion": "1.0", "ce_type": brokersuite.TypeA, "ce_id": "7"}
	b.put(topic, broken)

	var calls atomic.Int64
	h := newHandler(func(context.Context, outbox.Envelope) error { calls.Add(1); return nil })
	cfg := subscribeConfig()
	subscribe(t, b.subscriber("projector"), h, cfg)
	eventually(t, "all are acknowledged", func() bool { return b.unacked("projector") == 0 })
	if n, parked := calls.Load(), h.parked.Load(); n != 0 || parked != 1 {
		t.Errorf("%d were handled and %d parked, want none and one", n, parked)
	}
	if n := cfg.Stats.Delivered.Load(); n != 1 {
		t.Errorf("%d deliveries are counted, want the broken one's alone", n)
	}
}

func TestSubscribeConfig(t *testing.T) {
	topology := outbox.Topology{
		Events:    []outbox.EventTopology{{Type: brokersuite.TypeA, Topic: "one"}, {Type: brokersuite.TypeB, Topic: "two"}},
		Consumers: []outbox.ConsumerTopology{{Name: "projector"}},
	}
	var mu sync.Mutex
	var topics []string
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wrapped := subscribeFunc(func(ctx context.Context, topic string) (<-chan *message.Message, error) {
		mu.Lock()
		defer mu.Unlock()
		if topics = append(topics, topic); len(topics) == 2 {
			cancel()
		}
		out := make(chan *message.Message)
		context.AfterFunc(ctx, func() { close(out) })
		return out, nil
	})
	if err := Subscribe(ctx, wrapped, newHandler(nil), SubscribeConfig{Topology: topology}); err != nil {
		t.Error(err)
	}
	if !slices.Equal(topics, []string{"one", "two"}) {
		t.Errorf("subscribed to %v", topics)
	}
	stranger := topology
	stranger.Consumers = nil
	lacking := topology
	lacking.Events = topology.Events[:1]
	for want, cfg := range map[string]SubscribeConfig{
		"needs Topology or Topic":     {},
		"exclude each other":          {Topology: topology, Topic: oneTopic},
		"negative setting":            {Topology: topology, Prefetch: -1},
		"does not have this consumer": {Topology: stranger},
		"no topic for event":          {Topology: lacking},
	} {
		if err := Subscribe(t.Context(), wrapped, newHandler(nil), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
