package rabbitmq

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// The server is killed and started again while a consumer reads. Not in parallel with other
// tests.
func TestServerKilledWhileHandling(t *testing.T) {
	r := newRig(t)
	sent := eventsOf(2000)
	if n := count(publishAll(t, r.publisher(PublisherConfig{}), sent, nil)); n[""] != len(sent) {
		t.Fatalf("%v", n)
	}
	var got seen
	halfway := make(chan struct{})
	stats := new(outbox.SubscribeStats)
	cfg := r.subscribeConfig()
	cfg.Concurrency, cfg.Stats = 4, stats
	var n atomic.Int64
	r.subscribe(handler{name: "projector", handle: func(_ context.Context, e outbox.Envelope) error {
		switch n.Add(1) {
		case 500:
			close(halfway)
		case 100, 600, 700:
			return errors.New("some fail") // and are put into a queue to wait, if that can be
		}
		got.add(e.ID)
		return nil
	}}, cfg)
	receive(t, "a quarter is handled", halfway)
	if err := r.server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := r.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "all events are handled", func() bool {
		for _, e := range sent {
			if !got.has(e.ID) {
				return false
			}
		}
		return true
	})
	waitUntil(t, "and acknowledged", func() bool { return r.unacked("projector") == 0 })
	// What was not acknowledged, or whose acknowledgement got lost, comes again.
	if n := stats.Delivered.Load(); n > int64(len(sent)+2*32+10) {
		t.Errorf("%d deliveries of %d events", n, len(sent))
	}
}

// While the alarm is on, acknowledgements go on, and a message that fails stays where it is.
// Not in parallel with other tests.
func TestMemoryAlarmWhileHandling(t *testing.T) {
	r := newRig(t)
	p := r.publisher(PublisherConfig{})
	sent := eventsOf(20)
	if n := count(publishAll(t, p, sent, nil)); n[""] != len(sent) {
		t.Fatalf("%v", n)
	}
	if err := r.server.MemoryAlarm(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.server.MemoryAlarm(context.Background(), false) })
	bad := sent[3].ID
	var healed atomic.Bool
	var got seen
	stats := new(outbox.SubscribeStats)
	cfg := r.subscribeConfig()
	cfg.ConfirmTimeout, cfg.Stats = 200*time.Millisecond, stats
	stop := r.subscribe(handler{name: "projector", handle: func(_ context.Context, e outbox.Envelope) error {
		if e.ID == bad && !healed.Load() {
			return errors.New("not yet")
		}
		got.add(e.ID)
		return nil
	}}, cfg)
	waitUntil(t, "the others are handled and acknowledged", func() bool { return r.unacked("projector") == 1 })
	if stats.Delivered.Load() != int64(len(sent)) {
		t.Errorf("%d deliveries while the alarm is on, want %d", stats.Delivered.Load(), len(sent))
	}
	healed.Store(true)
	if err := r.server.MemoryAlarm(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the one that failed is handled", func() bool { return got.has(bad) && r.unacked("projector") == 0 })
	stop()
}

// The channel is closed after the last acknowledgement.
func TestHandlersEndFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := publishOne(t, r.publisher(PublisherConfig{}), brokersuite.Event("a", 1)); err != nil {
		t.Fatal(err)
	}
	entered, ending := make(chan struct{}, 10), make(chan struct{})
	cfg := r.subscribeConfig()
	cfg.Stats = new(outbox.SubscribeStats)
	stop := r.subscribe(handler{name: "projector", handle: func(context.Context, outbox.Envelope) error {
		entered <- struct{}{}
		<-ending
		time.Sleep(200 * time.Millisecond) // longer than it takes to close a channel
		return nil
	}}, cfg)
	receive(t, "the handler is called", entered)
	close(ending)
	stop()
	if acked, failed := cfg.Stats.Acked.Load(), cfg.Stats.AckFailed.Load(); acked != 1 || failed != 0 {
		t.Errorf("%d acknowledged, %d could not be, want 1 and 0", acked, failed)
	}
	waitUntil(t, "the broker has the acknowledgement", func() bool { return r.unacked("projector") == 0 })
}

// At the end of a subscription nothing is left with it: what it holds goes back at once.
func TestStopGivesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sent := eventsOf(20)
	if n := count(publishAll(t, r.publisher(PublisherConfig{}), sent, nil)); n[""] != len(sent) {
		t.Fatalf("%v", n)
	}
	entered, release := make(chan struct{}, 100), make(chan struct{})
	stop := r.subscribe(handler{name: "projector", handle: func(context.Context, outbox.Envelope) error {
		entered <- struct{}{}
		<-release
		return errors.New("not now")
	}}, r.subscribeConfig())
	receive(t, "the handler is called", entered)
	time.AfterFunc(10*time.Millisecond, func() { close(release) })
	stop()
	channel := r.channel()
	waitUntil(t, "all messages can be had by another process, or wait", func() bool {
		q, err := channel.QueueDeclarePassive(r.queue("projector"), true, false, false, false, nil)
		return err == nil && q.Messages+r.held(retryQueue(r.queue("projector"), retryDelays()[0])) == len(sent)
	})
}
