package rabbitmq

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// Two processes read a queue with a single active consumer. The one that has it ends in the
// middle, the other one goes on behind it.
func TestSingleActiveConsumerKeepsOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topology := r.fresh()
	if _, err := Ensure(t.Context(), r.connector(), topology, EnsureConfig{Create: true, RetryDelays: retryDelays(), SingleActiveConsumer: true}); err != nil {
		t.Fatal(err)
	}
	p, err := NewPublisher(r.connector(), PublisherConfig{Topology: topology})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var sent []outbox.Envelope
	for n := range int64(300) {
		e := brokersuite.Event("order-"+strconv.FormatInt(n%3, 10), n)
		e.Type = "a"
		sent = append(sent, e)
	}
	if n := count(publishAll(t, p, sent, nil)); n[""] != len(sent) {
		t.Fatalf("%v", n)
	}
	var mu sync.Mutex
	applied := make(map[string]int64) // by aggregate: its last version
	by := make(map[string]int)
	middle := make(chan struct{})
	process := func(name string) handler {
		return handler{name: "one", handle: func(_ context.Context, e outbox.Envelope) error {
			mu.Lock()
			defer mu.Unlock()
			if last, ok := applied[e.AggregateID]; ok && e.AggregateVersion != last+3 {
				t.Errorf("%s: version %d of %s after %d", name, e.AggregateVersion, e.AggregateID, last)
			}
			applied[e.AggregateID] = e.AggregateVersion
			if by[name]++; name == "first" && by[name] == 100 {
				close(middle)
			}
			return nil
		}}
	}
	cfg := r.subscribeConfig()
	cfg.Topology, cfg.Concurrency = topology, 3
	queue := topology.Consumers[0].Queue
	consuming := func(n int) func() bool { return func() bool { return r.consumers(queue) == n } }
	hold := make(chan struct{})
	first := process("first")
	handle := first.handle
	first.handle = func(ctx context.Context, e outbox.Envelope) error {
		<-hold // until the second one reads as well
		return handle(ctx, e)
	}
	stop := r.subscribe(first, cfg)
	waitUntil(t, "the first process reads", consuming(1))
	r.subscribe(process("second"), cfg)
	waitUntil(t, "the second process reads", consuming(2))
	close(hold)
	receive(t, "the first process is in the middle", middle)
	stop()
	waitUntil(t, "everything is handled", func() bool { return r.held(queue) == 0 })
	if by["first"] < 100 || by["second"] == 0 || by["first"]+by["second"] != len(sent) {
		t.Errorf("handled %v", by)
	}
}
