package natsjs

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// A handler that commits in spite of its context's end is acknowledged.
func TestShutdownTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := subscribeConfig()
	cfg.ShutdownTimeout = 50 * time.Millisecond
	cfg.Stats = new(outbox.SubscribeStats)
	entered := make(chan struct{})
	stop := r.subscribe(funcHandler(func(ctx context.Context, _ outbox.Envelope) error {
		close(entered)
		<-ctx.Done()
		return nil
	}), cfg)
	r.publish(brokersuite.Event("a", 1))
	<-entered
	stop() // fails the test unless Subscribe returns nil
	if n := cfg.Stats.Acked.Load(); n != 1 {
		t.Errorf("%d acknowledgements, want 1", n)
	}
}

// A handler that runs when ctx ends, and reading with it, is waited for, and its
// acknowledgement gets through.
func TestHandlersEndFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := subscribeConfig()
	cfg.Stats = new(outbox.SubscribeStats)
	entered, ending := make(chan struct{}), make(chan struct{})
	stop := r.subscribe(funcHandler(func(context.Context, outbox.Envelope) error {
		close(entered)
		<-ending
		return nil
	}), cfg)
	r.publish(brokersuite.Event("a", 1))
	<-entered
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stop()
	}()
	waitUntil(t, "it doesn't read any more", func() bool { return !r.waiting("projector") })
	select {
	case <-ended:
		t.Error("the subscription has ended, and a handler runs")
	case <-time.After(200 * time.Millisecond): // nothing tells that nothing happens
	}
	close(ending)
	<-ended
	if acked, failed := cfg.Stats.Acked.Load(), cfg.Stats.AckFailed.Load(); acked != 1 || failed != 0 {
		t.Errorf("%d acknowledged, %d could not be, want 1 and 0", acked, failed)
	}
	if n := r.unacked("projector"); n != 0 {
		t.Errorf("the server lacks %d acknowledgements", n)
	}
}

func TestSubscribeEndsWithAnError(t *testing.T) {
	t.Parallel()
	nothing := funcHandler(func(context.Context, outbox.Envelope) error { return nil })
	run := func(t *testing.T, r *rig, cfg SubscribeConfig) <-chan error {
		done := make(chan error, 1)
		go func() { done <- Subscribe(t.Context(), r.via, nothing, cfg) }()
		return done
	}
	wait := func(t *testing.T, done <-chan error, want error) {
		t.Helper()
		select {
		case err := <-done:
			if err == nil || want != nil && !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		case <-time.After(20 * time.Second):
			t.Error("Subscribe goes on")
		}
	}
	t.Run("stream is missing", func(t *testing.T) {
		t.Parallel()
		cfg := subscribeConfig()
		cfg.Stream = "MISSING"
		wait(t, run(t, newRig(t), cfg), jetstream.ErrStreamNotFound)
	})
	deleted := func(t *testing.T, r *rig) {
		t.Helper()
		if err := r.js.DeleteConsumer(t.Context(), stream, "projector"); err != nil {
			t.Fatal(err)
		}
	}
	notMadeAnew := func(t *testing.T, r *rig) {
		t.Helper()
		if _, err := r.js.Consumer(t.Context(), stream, "projector"); !errors.Is(err, jetstream.ErrConsumerNotFound) {
			t.Errorf("the consumer was made anew: %v", err)
		}
	}
	t.Run("consumer is deleted while waiting", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		done := run(t, r, subscribeConfig())
		r.publish(brokersuite.Event("a", 1))
		waitUntil(t, "it reads", func() bool { return r.waiting("projector") })
		deleted(t, r)
		wait(t, done, jetstream.ErrConsumerDeleted)
		notMadeAnew(t, r)
	})
	t.Run("consumer is deleted while handling", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.publish(brokersuite.Event("a", 1))
		done := make(chan error, 1)
		go func() {
			done <- Subscribe(t.Context(), r.via, funcHandler(func(context.Context, outbox.Envelope) error {
				deleted(t, r)
				return nil
			}), subscribeConfig())
		}()
		wait(t, done, jetstream.ErrConsumerDeleted)
		notMadeAnew(t, r)
	})
	t.Run("stream is deleted", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		done := run(t, r, subscribeConfig())
		waitUntil(t, "it reads", func() bool { return r.waiting("projector") })
		if err := r.js.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
		wait(t, done, nil)
	})
	t.Run("connection is closed", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		done := run(t, r, subscribeConfig())
		waitUntil(t, "the consumer is there", func() bool { return r.unacked("projector") == 0 })
		r.via.Conn().Close()
		wait(t, done, nil)
	})
	t.Run("settings", func(t *testing.T) {
		t.Parallel()
		for _, cfg := range []SubscribeConfig{
			{}, {Stream: "A"}, {Stream: "A", SubjectPrefix: "a", Subjects: []string{"b"}}, {Stream: "A", SubjectPrefix: "a.>"},
			{Stream: "A", SubjectPrefix: "a", Concurrency: -1}, {Stream: "A", SubjectPrefix: "a", Backoff: -1},
		} {
			if err := Subscribe(t.Context(), nil, nothing, cfg); err == nil {
				t.Errorf("%+v is taken", cfg)
			}
		}
	})
}

// The broker comes up after the service.
func TestSubscribeWaitsForTheBroker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.Stop()
	waitUntil(t, "the connection is lost", func() bool { return r.via.Conn().Status() != nats.CONNECTED })
	handled := make(chan struct{})
	r.subscribe(funcHandler(func(context.Context, outbox.Envelope) error { close(handled); return nil }), subscribeConfig())
	r.restart(t)
	e := brokersuite.Event("a", 1)
	p := r.publisher(PublisherConfig{})
	waitUntil(t, "it publishes", func() bool { return publishOne(t, p, e) == nil })
	<-handled
}

// The server falls silent for longer than its heartbeats: reading goes on when it
// is back.
func TestReadingIsInterrupted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var log lockedBuffer
	cfg := subscribeConfig()
	cfg.Prefetch, cfg.AckTimeout = 1, 200*time.Millisecond // the room of the request that failed has to come back
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	handled := make(chan struct{}, 10)
	r.subscribe(funcHandler(func(context.Context, outbox.Envelope) error { handled <- struct{}{}; return nil }), cfg)
	waitUntil(t, "it reads", func() bool { return r.waiting("projector") })
	r.proxy.muteServer(true)
	waitUntil(t, "reading is interrupted", func() bool { return strings.Contains(log.String(), "interrupted") })
	r.proxy.muteServer(false)
	r.proxy.cut()
	p := r.publisher(PublisherConfig{})
	waitUntil(t, "it publishes", func() bool { return publishOne(t, p, brokersuite.Event("a", 1)) == nil })
	<-handled
}
