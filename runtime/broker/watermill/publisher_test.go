package watermill

import (
	"context"
	"errors"
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

func TestPublisherConfig(t *testing.T) {
	topology := outbox.Topology{Events: []outbox.EventTopology{{Type: brokersuite.TypeA, Topic: "a"}}}
	for name, test := range map[string]struct {
		cfg  PublisherConfig
		want string
	}{
		"topic":           {PublisherConfig{Synchronous: true, Topic: oneTopic}, ""},
		"topology":        {PublisherConfig{Synchronous: true, Topology: topology}, ""},
		"not synchronous": {PublisherConfig{Topic: oneTopic}, "Synchronous isn't set"},
		"no place":        {PublisherConfig{Synchronous: true}, "needs Topology or Topic"},
		"both":            {PublisherConfig{Synchronous: true, Topology: topology, Topic: oneTopic}, "exclude each other"},
		"event has no topic": {
			PublisherConfig{Synchronous: true, Topology: outbox.Topology{Events: []outbox.EventTopology{{Type: "x"}}}},
			"no topic for event x",
		},
		"negative": {PublisherConfig{Synchronous: true, Topic: oneTopic, MaxInFlight: -1}, "can't be negative"},
	} {
		_, err := NewPublisher(newPubSub(t, 1), test.cfg)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if _, err := NewPublisher(newPubSub(t, 1), PublisherConfig{Topic: oneTopic}); !errors.Is(err, ErrNotSynchronous) {
		t.Errorf("%v, want ErrNotSynchronous", err)
	}
}

// Watermill returns one error for a call of several messages, so each has its own call;
// and only what is certain is anything but unknown.
func TestErrorsAreUnknown(t *testing.T) {
	t.Parallel()
	errs := map[string]error{
		"unknown by default": errors.New("what the broker has is anybody's guess"),
		"its own kind":       outbox.PublishFailed(errors.New("it says so itself")),
		"fine":               nil,
	}
	p := newPublisher(t, publishFunc(func(_ string, m *message.Message) error { return errs[m.Metadata["ce_subject"]] }), PublisherConfig{})
	var sent []outbox.Envelope
	for _, name := range []string{"unknown by default", "its own kind", "fine"} {
		sent = append(sent, brokersuite.Event(name, 1))
	}
	if got, want := kinds(p.Publish(t.Context(), sent)), []string{"unknown", "failed", "published"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	tooLarge := errors.New("too large")
	p := newPublisher(t, publishFunc(func(_ string, m *message.Message) error {
		if m.Metadata["ce_aggregateversion"] == "2" {
			return tooLarge
		}
		return nil
	}), PublisherConfig{Classify: func(err error) outbox.FailureKind {
		if errors.Is(err, tooLarge) {
			return outbox.FailureRejected
		}
		return outbox.FailureUnknown
	}})
	// One that is rejected is dead, and holds up nobody.
	results := p.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("a", 1), brokersuite.Event("a", 2), brokersuite.Event("a", 3)})
	if got, want := kinds(results), []string{"published", "rejected", "published"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if !errors.Is(results[1], tooLarge) {
		t.Errorf("%v doesn't wrap the publisher's error", results[1])
	}
}

func TestTopologyHasTheTopics(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	got := make(map[string]string) // topic by type
	p, err := NewPublisher(publishFunc(func(topic string, m *message.Message) error {
		mu.Lock()
		defer mu.Unlock()
		got[m.Metadata["ce_type"]] = topic
		return nil
	}), PublisherConfig{Synchronous: true, Topology: outbox.Topology{Events: []outbox.EventTopology{
		{Type: brokersuite.TypeA, Topic: "one"}, {Type: brokersuite.TypeB, Topic: "two"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	a, b, unknown := brokersuite.Event("a", 1), brokersuite.Event("b", 1), brokersuite.Event("a", 2)
	b.Type, unknown.Type = brokersuite.TypeB, "new.type"
	behind := brokersuite.Event("a", 3)
	results := p.Publish(t.Context(), []outbox.Envelope{a, b, unknown, behind})
	if got, want := kinds(results), []string{"published", "published", "unavailable", "held back"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if !errors.Is(results[2], ErrNoTopic) || !errors.Is(results[3], ErrHeldBack) {
		t.Errorf("%v and %v, want ErrNoTopic and ErrHeldBack", results[2], results[3])
	}
	if got[brokersuite.TypeA] != "one" || got[brokersuite.TypeB] != "two" {
		t.Errorf("topics are %v", got)
	}
}

// A topic that takes nothing gets no more; others go on.
func TestUnavailableTopicStopsItselfAlone(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	p := newPublisher(t, publishFunc(func(topic string, _ *message.Message) error {
		if topic == brokersuite.TypeB {
			calls.Add(1)
			return errDown
		}
		return nil
	}), PublisherConfig{
		Topic: func(eventType string) string { return eventType }, MaxInFlight: 1,
		Classify: func(error) outbox.FailureKind { return outbox.FailureUnavailable },
	})
	var sent []outbox.Envelope
	for i := range 50 {
		e := brokersuite.Event(string(rune('A'+i)), 1)
		if i%2 == 1 {
			e.Type = brokersuite.TypeB
		}
		sent = append(sent, e)
	}
	for i, kind := range kinds(p.Publish(t.Context(), sent)) {
		if i%2 == 0 && kind != "published" || i%2 == 1 && kind != "unavailable" && kind != "held back" {
			t.Errorf("message %d is %s", i, kind)
		}
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d messages were sent to the topic that takes nothing, want 1", n)
	}
}

// A publisher that never returns and doesn't heed contexts: Publish returns all the
// same, its message is unknown, and what hangs is bounded.
func TestPublisherThatHangs(t *testing.T) {
	t.Parallel()
	release, calls := make(chan struct{}), make(chan string, 10)
	var hang atomic.Bool
	hang.Store(true)
	p := newPublisher(t, publishFunc(func(_ string, m *message.Message) error {
		calls <- m.Metadata["ce_subject"]
		if hang.Load() {
			<-release
		}
		return nil
	}), PublisherConfig{AckTimeout: 30 * time.Millisecond, MaxInFlight: 1})
	results := p.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("a", 1), brokersuite.Event("a", 2), brokersuite.Event("a", 3)})
	if got, want := kinds(results), []string{"unknown", "held back", "held back"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if !errors.Is(results[0], errAckTimeout) {
		t.Errorf("%v, want errAckTimeout", results[0])
	}

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if got := kinds(p.Publish(ctx, []outbox.Envelope{brokersuite.Event("b", 1)})); got[0] != "unavailable" {
		t.Errorf("with all places taken a message is %s, want unavailable", got[0])
	}
	hang.Store(false)
	close(release)
	if got := kinds(p.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("c", 1)})); got[0] != "published" {
		t.Errorf("after the hang a message is %s", got[0])
	}
	close(calls)
	if got := slices.Collect(func(yield func(string) bool) {
		for c := range calls {
			yield(c)
		}
	}); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("calls for %v, want a and c", got)
	}
}

// Those that wait for a place which a hanging publisher keeps don't wait for ever.
func TestHangReleasesThoseThatWait(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	p := newPublisher(t, publishFunc(func(string, *message.Message) error {
		<-release
		return nil
	}), PublisherConfig{AckTimeout: 20 * time.Millisecond, MaxInFlight: 1})
	results := make(chan []error, 1)
	go func() {
		results <- p.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("a", 1), brokersuite.Event("b", 1)})
	}()
	got := kinds(receive(t, "Publish returns", results))
	slices.Sort(got)
	if !slices.Equal(got, []string{"held back", "unknown"}) {
		t.Errorf("%v, want one unknown and one held back", got)
	}
}

// One message without an answer is enough: the others would wait as long.
func TestNoAnswerStopsTheCall(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	p := newPublisher(t, publishFunc(func(_ string, m *message.Message) error {
		calls.Add(1)
		<-m.Context().Done() // this one heeds it
		return m.Context().Err()
	}), PublisherConfig{AckTimeout: 20 * time.Millisecond, MaxInFlight: 2})
	var sent []outbox.Envelope
	for i := range 40 {
		sent = append(sent, brokersuite.Event(string(rune('A'+i)), 1))
	}
	unknown := 0
	for i, kind := range kinds(p.Publish(t.Context(), sent)) {
		switch kind {
		case "unknown":
			unknown++
		case "held back":
		default:
			t.Errorf("message %d is %s", i, kind)
		}
	}
	// A place may be taken just before the call is stopped.
	if n := calls.Load(); n != int64(unknown) || unknown == 0 || unknown > 10 {
		t.Errorf("%d calls and %d unknown, want as many, and few", n, unknown)
	}
}

func TestPanicComesThrough(t *testing.T) {
	t.Parallel()
	p := newPublisher(t, publishFunc(func(string, *message.Message) error { panic("scripted") }), PublisherConfig{})
	defer func() {
		if v := recover(); v != "scripted" {
			t.Errorf("recovered %v, want the publisher's own value", v)
		}
	}()
	p.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("a", 1)})
	t.Error("no panic")
}

func TestPublishAfterClose(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	p := newPublisher(t, publishFunc(func(string, *message.Message) error {
		close(entered)
		<-release
		return nil
	}), PublisherConfig{AckTimeout: time.Hour})
	results := make(chan []error, 1)
	go func() { results <- p.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("a", 1)}) }()
	receive(t, "the message is handed over", entered)
	p.Close()
	if got := kinds(receive(t, "Publish returns", results)); got[0] != "unknown" {
		t.Errorf("what was on its way is %s, want unknown", got[0])
	}
	after := p.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("b", 1)})
	if kinds(after)[0] != "unavailable" || !errors.Is(after[0], ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed, unavailable", after[0])
	}
}

func TestUnorderedDoesNotHoldBack(t *testing.T) {
	t.Parallel()
	p := newPublisher(t, publishFunc(func(_ string, m *message.Message) error {
		if m.Metadata["ce_aggregateversion"] == "1" {
			return errDown
		}
		return nil
	}), PublisherConfig{Unordered: true})
	results := p.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("a", 1), brokersuite.Event("a", 2)})
	if got, want := kinds(results), []string{"unknown", "published"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
