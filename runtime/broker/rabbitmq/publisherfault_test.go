package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// publishAll publishes until everything is confirmed or rejected, as a relay does. It
// returns the last result of each message.
func publishAll(t *testing.T, p *Publisher, sent []outbox.Envelope, each func(results []error)) []error {
	t.Helper()
	final := make([]error, len(sent))
	waiting := make([]int, len(sent))
	for i := range waiting {
		waiting[i] = i
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	for len(waiting) > 0 && ctx.Err() == nil {
		batch := make([]outbox.Envelope, 0, 500)
		for _, i := range waiting[:min(len(waiting), 500)] {
			batch = append(batch, sent[i])
		}
		results := p.Publish(ctx, batch)
		var again []int
		for n, err := range results {
			final[waiting[n]] = err
			if err != nil && outbox.FailureKindOf(err) != outbox.FailureRejected {
				again = append(again, waiting[n])
			}
		}
		if len(again) > 0 && !sleep(ctx, 20*time.Millisecond) {
			break
		}
		waiting = append(again, waiting[len(results):]...)
		if each != nil {
			each(results)
		}
	}
	return final
}

// The server is killed and started again in the middle. Not in parallel with other tests.
func TestServerKilledWhilePublishing(t *testing.T) {
	r := newRig(t)
	p := r.publisher(PublisherConfig{AckTimeout: 2 * time.Second})
	sent := eventsOf(5000)
	confirmed := make(chan int, 1000)
	var seen sync.Map // kinds of failures
	done := make(chan []error, 1)
	go func() {
		done <- publishAll(t, p, sent, func(results []error) {
			n := 0
			for _, err := range results {
				if err == nil {
					n++
					continue
				}
				seen.Store(outbox.FailureKindOf(err), true)
			}
			confirmed <- n
		})
	}()
	for n := 0; n < 1000; {
		n += receive(t, "a batch is published", confirmed)
	}
	// In the middle of a batch, not between two.
	queue := r.queue("projector")
	before := r.held(queue)
	waitUntil(t, "the next batch is on its way", func() bool { return r.held(queue) > before })
	if err := r.server.Kill(); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the publisher notices", func() bool {
		_, unavailable := seen.Load(outbox.FailureUnavailable)
		return unavailable
	})
	if err := r.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	results := <-done
	if n := count(results); n[""] != len(sent) {
		t.Fatalf("%v, want all confirmed in the end", n)
	}
	for _, kind := range []outbox.FailureKind{outbox.FailureRejected, outbox.FailureFailed} {
		if _, found := seen.Load(kind); found {
			t.Errorf("a result was %v: a dead broker is no message's fault", kind)
		}
	}
	checkStored(t, r.stored(queue), sent, results)
}

// Not in parallel with other tests: it stops every publisher.
func TestMemoryAlarm(t *testing.T) {
	r := newRig(t)
	p := r.publisher(PublisherConfig{AckTimeout: 500 * time.Millisecond})
	idle := r.publisher(PublisherConfig{AckTimeout: 500 * time.Millisecond}) // with room in its window
	if err := publishOne(t, idle, brokersuite.Event("a", 1)); err != nil {
		t.Fatal(err)
	}
	sent := eventsOf(3000)
	var mu sync.Mutex
	var blocked, inDoubt int
	batches := make(chan struct{}, 10000)
	done := make(chan []error, 1)
	go func() {
		done <- publishAll(t, p, sent, func(results []error) {
			mu.Lock()
			defer mu.Unlock()
			for _, err := range results {
				switch {
				case errors.Is(err, ErrBlocked) && outbox.FailureKindOf(err) == outbox.FailureUnavailable:
					blocked++
				case err != nil && outbox.FailureKindOf(err) == outbox.FailureUnknown:
					inDoubt++
				case err != nil && outbox.FailureKindOf(err) != outbox.FailureUnavailable && outbox.FailureKindOf(err) != outbox.FailureHeldBack:
					t.Errorf("%v", err)
				}
			}
			batches <- struct{}{}
		})
	}()
	receive(t, "a batch is published", batches)
	if err := r.server.MemoryAlarm(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.server.MemoryAlarm(context.Background(), false) })
	waitUntil(t, "Publish says that the broker is blocked", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return blocked > 0
	})
	// A call in the middle of an alarm returns at once.
	began := time.Now()
	wantKind(t, publishOne(t, p, brokersuite.Event("a", 1)), outbox.FailureUnavailable)
	if took := time.Since(began); took > 400*time.Millisecond {
		t.Errorf("a blocked broker was waited for, %v", took)
	}
	// The broker says that a connection is blocked when it publishes again.
	wantKind(t, publishOne(t, idle, brokersuite.Event("a", 2)), outbox.FailureUnknown)
	wantIs(t, publishOne(t, idle, brokersuite.Event("a", 3)), ErrBlocked)
	link := p.sender.link
	if err := r.server.MemoryAlarm(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	results := receive(t, "all events are published", done)
	if n := count(results); n[""] != len(sent) {
		t.Fatalf("%v, want all confirmed in the end", n)
	}
	if link != p.sender.link {
		t.Error("the connection was given up, which the alarm is no reason for")
	}
	if inDoubt == 0 {
		t.Error("nothing was unknown, though the alarm came in the middle")
	}
	checkStored(t, r.stored(r.queue("projector")), sent, results)
}

func TestQueueDeletedMidBatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publisher(PublisherConfig{MaxInFlight: 50, AckTimeout: 2 * time.Second})
	sent := eventsOf(3000)
	result := make(chan []error, 1)
	go func() { result <- publishAll(t, p, sent, nil) }()
	queue := r.queue("projector")
	waitUntil(t, "some events are published", func() bool { return r.held(queue) > 100 })
	for _, name := range consumers { // nobody is left who wants these events
		r.delete(r.queue(name))
	}
	// The broker may end the channel of it (541 INTERNAL_ERROR), which leaves some in
	// doubt. Published again, they are unroutable.
	results := receive(t, "all is published or rejected", result)
	n := count(results)
	if n[""] == 0 || n["rejected"] == 0 || n[""]+n["rejected"] != len(sent) {
		t.Errorf("%v, want those before confirmed and those behind unroutable", n)
	}
	for _, err := range results {
		if err != nil {
			wantIs(t, err, ErrUnroutable)
		}
	}
	if results[len(sent)-1] == nil {
		t.Error("the last event is confirmed, and no queue was there")
	}
}

func TestExchangeDeletedMidBatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publisher(PublisherConfig{MaxInFlight: 50, AckTimeout: 2 * time.Second})
	sent := eventsOf(3000)
	result := make(chan []error, 1)
	go func() { result <- p.Publish(t.Context(), sent) }()
	queue := r.queue("projector")
	waitUntil(t, "some events are published", func() bool { return r.held(queue) > 100 })
	if err := r.channel().ExchangeDelete(r.name, false, false); err != nil {
		t.Fatal(err)
	}
	results := receive(t, "Publish returns", result)
	n := count(results)
	if n[""] == 0 || n["failed"] > 0 || n["unavailable"] == 0 || n["rejected"] > 1 {
		t.Errorf("%v, want those before confirmed, the last one in flight not taken, those between unknown", n)
	}
	// The broker takes the bindings away first: an event may come in between.
	for _, err := range results {
		if err != nil && outbox.FailureKindOf(err) == outbox.FailureRejected {
			wantIs(t, err, ErrUnroutable)
		}
	}
	// Asked first, the broker says so, and no channel ends of it.
	for _, err := range p.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("a", 1), brokersuite.Event("b", 1)}) {
		wantKind(t, err, outbox.FailureUnavailable)
		wantIs(t, err, ErrNoExchange)
	}
	link := p.sender.link
	r.ensure(r.topology)
	if n := count(publishAll(t, p, sent, nil)); n[""] != len(sent) {
		t.Errorf("%v, want all confirmed once the exchange is back", n)
	}
	if p.sender.link != link {
		t.Error("a missing exchange has cost the connection")
	}
	checkStored(t, r.stored(queue), sent, make([]error, len(sent)))
}

// The missing exchange of one event isn't the others' trouble.
func TestNoExchange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	lost := brokersuite.Event("a", 1)
	p := r.publisher(PublisherConfig{Route: func(e outbox.Envelope) (string, string) {
		if e.ID == lost.ID {
			return r.name + ".missing", e.Type
		}
		return r.name, e.Type
	}})
	results := p.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("b", 1), lost, brokersuite.Event("a", 2), brokersuite.Event("b", 2), brokersuite.Event("c", 1)})
	wantKind(t, results[1], outbox.FailureUnavailable)
	wantIs(t, results[1], ErrNoExchange)
	wantKind(t, results[2], outbox.FailureHeldBack)
	for _, i := range []int{0, 3, 4} {
		if results[i] != nil {
			t.Errorf("event %d: %v", i, results[i])
		}
	}
}

// The limit counts for channels that are opened later. Not in parallel with other tests.
func TestTooLarge(t *testing.T) {
	r := newRig(t)
	limit := func(expression string) {
		if _, err := r.server.Eval(context.Background(), expression); err != nil {
			t.Fatal(err)
		}
	}
	old, err := r.server.Eval(t.Context(), `{ok, N} = application:get_env(rabbit, max_message_size), N.`)
	if err != nil {
		t.Fatal(err)
	}
	// The second is where RabbitMQ 4 keeps it for its channels.
	set := `application:set_env(rabbit, max_message_size, %s), persistent_term:put(max_message_size, %s).`
	limit(fmt.Sprintf(set, "1000", "1000"))
	defer limit(fmt.Sprintf(set, old, old))
	p := r.publisher(PublisherConfig{})
	large := brokersuite.Event("a", 1)
	large.Data = []byte(`"` + strings.Repeat("x", 2000) + `"`)
	err = publishOne(t, p, large)
	wantKind(t, err, outbox.FailureRejected)
	waitUntil(t, "the publisher is back", func() bool { return publishOne(t, p, brokersuite.Event("a", 2)) == nil })
}
