package natsjs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// twoStreams has an event type in each of the streams ORDERS and BILLING.
func twoStreams() outbox.Topology {
	return outbox.Topology{
		Service: "orders",
		Events: []outbox.EventTopology{
			{Type: brokersuite.TypeA, Stream: stream, Key: "orders.accepted"},
			{Type: brokersuite.TypeB, Stream: "BILLING", Key: "billing.cancelled"},
		},
		Consumers: []outbox.ConsumerTopology{
			{Name: "projector", Queue: "orders.projector", Events: []string{brokersuite.TypeA, brokersuite.TypeB}},
		},
	}
}

// ofType is an event of TypeB when b is set.
func ofType(aggregate string, version int64, b bool) outbox.Envelope {
	e := brokersuite.Event(aggregate, version)
	if b {
		e.Type = brokersuite.TypeB
	}
	return e
}

func TestTopology(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.addStream(jetstream.StreamConfig{Name: "BILLING", Subjects: []string{"billing.>"}})
	topology := twoStreams()
	p, err := NewPublisher(r.via, PublisherConfig{Topology: topology})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	sent := []outbox.Envelope{ofType("a", 1, false), ofType("a", 2, true), ofType("a", 3, false), ofType("b", 1, true)}
	if err := errors.Join(p.Publish(t.Context(), sent)...); err != nil {
		t.Fatal(err)
	}
	if orders, billing := r.stored(stream), r.stored("BILLING"); len(orders) != 2 || len(billing) != 2 {
		t.Errorf("%d and %d events are stored, want 2 and 2", len(orders), len(billing))
	}

	var mu sync.Mutex
	got := make(map[string]bool)
	cfg := subscribeConfig()
	cfg.Stream, cfg.SubjectPrefix, cfg.Topology = "", "", topology
	r.subscribe(funcHandler(func(_ context.Context, e outbox.Envelope) error {
		mu.Lock()
		defer mu.Unlock()
		got[e.ID.String()] = true
		return nil
	}), cfg)
	for _, name := range []string{stream, "BILLING"} {
		waitUntil(t, "all of "+name+" is acknowledged", func() bool {
			c, err := r.js.Consumer(t.Context(), name, DurableName("orders.projector"))
			return err == nil && c.CachedInfo().NumAckPending == 0 && c.CachedInfo().NumPending == 0
		})
	}
	mu.Lock()
	defer mu.Unlock()
	if len(got) != len(sent) {
		t.Errorf("%d of %d events were handled", len(got), len(sent))
	}
}

// A type that the topology lacks waits in the outbox, with those behind it in its
// aggregate, and stops no other.
func TestNoPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topology := twoStreams()
	topology.Events = topology.Events[:1]
	p, err := NewPublisher(r.via, PublisherConfig{Topology: topology})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	results := p.Publish(t.Context(), []outbox.Envelope{
		ofType("a", 1, false), ofType("a", 2, true), ofType("a", 3, false), ofType("b", 1, false),
	})
	if results[0] != nil || results[3] != nil {
		t.Errorf("the others: %v, %v", results[0], results[3])
	}
	wantKind(t, results[1], outbox.FailureUnavailable)
	wantKind(t, results[2], outbox.FailureHeldBack)
	if !errors.Is(results[1], ErrNoPlace) || !errors.Is(results[2], ErrNoPlace) {
		t.Errorf("%v, %v, want ErrNoPlace", results[1], results[2])
	}
	if n := len(r.stored(stream)); n != 2 {
		t.Errorf("%d events are stored, want 2", n)
	}
}

// The acknowledgement has to come from the event's own stream, and a stream that takes
// nothing stops no other: but it does hold back its aggregates.
func TestOneStreamAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, cfg := range map[string]struct {
		topology func(*outbox.Topology)
		want     error
	}{
		"missing": {func(*outbox.Topology) {}, jetstream.ErrNoStreamResponse},
		"another": {func(t *outbox.Topology) { t.Events[1].Key = "orders.cancelled" }, ErrWrongStream},
	} {
		topology := twoStreams()
		cfg.topology(&topology)
		p, err := NewPublisher(r.via, PublisherConfig{Topology: topology, MaxInFlight: 1})
		if err != nil {
			t.Fatal(err)
		}
		before := len(r.stored(stream))
		results := p.Publish(t.Context(), []outbox.Envelope{
			ofType("b", 1, true), ofType("c", 1, true), ofType("a", 1, false), ofType("b", 2, false), ofType("a", 2, false),
		})
		p.Close()
		wantKind(t, results[0], outbox.FailureUnavailable)
		wantKind(t, results[1], outbox.FailureHeldBack) // MaxInFlight: it was not sent
		wantKind(t, results[3], outbox.FailureHeldBack)
		if results[2] != nil || results[4] != nil {
			t.Errorf("%s: the other stream's events: %v, %v", name, results[2], results[4])
		}
		if !errors.Is(results[0], cfg.want) || !strings.Contains(results[0].Error(), "BILLING") {
			t.Errorf("%s: %v, want %v and the stream's name", name, results[0], cfg.want)
		}
		if n := len(r.stored(stream)) - before; n != 2 {
			t.Errorf("%s: %d events are stored, want 2", name, n)
		}
	}
}

func TestTopologySettings(t *testing.T) {
	t.Parallel()
	change := func(f func(*outbox.Topology)) outbox.Topology {
		topology := twoStreams()
		f(&topology)
		return topology
	}
	nothing := funcHandler(func(context.Context, outbox.Envelope) error { return nil })
	noStream := change(func(t *outbox.Topology) { t.Events[0].Stream = "" })
	badKey := change(func(t *outbox.Topology) { t.Events[0].Key = "orders.*" })
	for name, cfg := range map[string]SubscribeConfig{
		"both":        {Topology: twoStreams(), Stream: stream},
		"both, too":   {Topology: twoStreams(), Subjects: []string{"a"}},
		"no consumer": {Topology: change(func(t *outbox.Topology) { t.Consumers = nil })},
		"no event":    {Topology: change(func(t *outbox.Topology) { t.Events = t.Events[:1] })},
		"no stream":   {Topology: noStream},
		"bad key":     {Topology: badKey},
	} {
		if err := Subscribe(t.Context(), nil, nothing, cfg); err == nil {
			t.Errorf("Subscribe, %s: taken", name)
		}
	}
	for name, cfg := range map[string]PublisherConfig{
		"nothing":   {},
		"both":      {Topology: twoStreams(), Stream: stream},
		"both, too": {Topology: twoStreams(), SubjectPrefix: "a"},
		"no stream": {Topology: noStream},
		"bad key":   {Topology: badKey},
	} {
		if _, err := NewPublisher(nil, cfg); err == nil {
			t.Errorf("NewPublisher, %s: taken", name)
		}
	}
	for name, topology := range map[string]outbox.Topology{
		"no stream": noStream, "bad key": badKey,
		"no event": change(func(t *outbox.Topology) { t.Consumers[0].Events = []string{"order.lost"} }),
	} {
		if _, err := streamsAndSources(topology); err == nil {
			t.Errorf("Ensure, %s: taken", name)
		}
	}
}

// streamsAndSources is what Ensure reads of a topology.
func streamsAndSources(topology outbox.Topology) (all []source, err error) {
	if _, err := streamsOf(topology); err != nil {
		return nil, err
	}
	for _, c := range topology.Consumers {
		s, err := topologySources(topology, c, c.Events)
		if err != nil {
			return nil, err
		}
		all = append(all, s...)
	}
	return all, nil
}

func TestSourcesByStream(t *testing.T) {
	t.Parallel()
	topology := twoStreams()
	topology.Events = append(topology.Events, outbox.EventTopology{Type: "order.archived", Stream: stream, Key: "orders.accepted"})
	topology.Consumers[0].Events = []string{brokersuite.TypeB, "order.archived", brokersuite.TypeA}
	all, err := streamsAndSources(topology)
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	if s := all[1]; s.stream != stream || !slices.Equal(s.subjects, []string{"orders.accepted"}) || s.durable != DurableName("orders.projector") {
		t.Errorf("%+v", s)
	}
	if s := all[0]; s.stream != "BILLING" || !slices.Equal(s.subjects, []string{"billing.cancelled"}) {
		t.Errorf("%+v", s)
	}
}
