package natsjs

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

func publishOne(t *testing.T, p *Publisher, e outbox.Envelope) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return p.Publish(ctx, []outbox.Envelope{e})[0]
}

func wantKind(t *testing.T, err error, kind outbox.FailureKind) {
	t.Helper()
	if err == nil || outbox.FailureKindOf(err) != kind {
		t.Errorf("%v, want %v", err, kind)
	}
}

// wantUnavailable requires that the broker was unavailable for the first message,
// and for the rest, what of it wasn't held back.
func wantUnavailable(t *testing.T, results []error) {
	t.Helper()
	wantKind(t, results[0], outbox.FailureUnavailable)
	for _, err := range results[1:] {
		if outbox.FailureKindOf(err) != outbox.FailureHeldBack {
			wantKind(t, err, outbox.FailureUnavailable)
		}
	}
}

func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20s", what)
		}
	}
}

// The subject belongs to a stream, and that stream would acknowledge: but it isn't
// the one that the settings name.
func TestWrongStream(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.addStream(jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other.>"}})
	err := publishOne(t, r.publisher(PublisherConfig{SubjectPrefix: "other"}), brokersuite.Event("a", 1))
	wantKind(t, err, outbox.FailureUnavailable)
	if !errors.Is(err, ErrWrongStream) {
		t.Errorf("%v, want ErrWrongStream", err)
	}
	if n := len(r.stored("OTHER")); n != 0 {
		t.Errorf("the other stream has stored %d events", n)
	}
}

// A server that doesn't heed Nats-Expected-Stream is caught by its acknowledgement.
func TestAckOfWrongStream(t *testing.T) {
	t.Parallel()
	if err := checkAck(stream, &jetstream.PubAck{Stream: stream, Duplicate: true}); err != nil {
		t.Errorf("a duplicate in the right stream: %v", err)
	}
	wantKind(t, checkAck(stream, &jetstream.PubAck{Stream: "OTHER"}), outbox.FailureUnavailable)
}

func TestMissingStream(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publisher(PublisherConfig{SubjectPrefix: "nowhere"})
	var sent atomic.Int64
	r.proxy.dropIf(func(subject string, _ []byte) bool {
		if strings.HasPrefix(subject, "nowhere.") {
			sent.Add(1)
		}
		return false
	})
	results := p.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("a", 1), brokersuite.Event("a", 2), brokersuite.Event("b", 1)})
	wantUnavailable(t, results)
	if !errors.Is(results[0], jetstream.ErrNoStreamResponse) || !strings.Contains(results[0].Error(), stream) {
		t.Errorf("%v, want the reason and the stream's name", results[0])
	}
	if !errors.Is(results[1], ErrHeldBack) {
		t.Errorf("%v, want ErrHeldBack", results[1])
	}
	if n := sent.Load(); n != 2 {
		t.Errorf("%d messages were sent, want one of each aggregate, once: trying again is the relay's", n)
	}
}

func TestFullStream(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.addStream(jetstream.StreamConfig{Name: "FULL", Subjects: []string{"full.>"}, MaxMsgs: 1, Discard: jetstream.DiscardNew})
	p := r.publisher(PublisherConfig{Stream: "FULL", SubjectPrefix: "full"})
	if err := publishOne(t, p, brokersuite.Event("a", 1)); err != nil {
		t.Fatal(err)
	}
	wantKind(t, publishOne(t, p, brokersuite.Event("a", 2)), outbox.FailureUnavailable)
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	large := brokersuite.Event("a", 1)
	large.Data = []byte(`"` + strings.Repeat("x", 2<<20) + `"`)
	wantKind(t, publishOne(t, r.publisher(PublisherConfig{}), large), outbox.FailureRejected)

	r.addStream(jetstream.StreamConfig{Name: "SMALL", Subjects: []string{"small.>"}, MaxMsgSize: 1000})
	large.Data = []byte(`"` + strings.Repeat("x", 2000) + `"`)
	small := brokersuite.Event("a", 2)
	results := r.publisher(PublisherConfig{Stream: "SMALL", SubjectPrefix: "small"}).Publish(t.Context(), []outbox.Envelope{large, small})
	wantKind(t, results[0], outbox.FailureRejected)
	if results[1] != nil {
		t.Errorf("the event behind the rejected one: %v", results[1])
	}
}

func TestBadSubject(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, source := range []string{"a b", "a.*", "a.>", "a..b", "$SYS"} {
		e := brokersuite.Event("a", 1)
		e.Source = source
		wantKind(t, publishOne(t, r.publisher(PublisherConfig{}), e), outbox.FailureRejected)
	}
}

func TestDuplicateWindow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.addStream(jetstream.StreamConfig{Name: "WINDOW", Subjects: []string{"window.>"}, Duplicates: time.Second})
	p := r.publisher(PublisherConfig{Stream: "WINDOW", SubjectPrefix: "window"})
	e := brokersuite.Event("a", 1)
	for range 3 {
		if err := publishOne(t, p, e); err != nil {
			t.Fatalf("a repeat inside the window: %v", err)
		}
	}
	if n := len(r.stored("WINDOW")); n != 1 {
		t.Fatalf("the stream holds the event %d times inside the window, want 1", n)
	}
	// The window isn't extended by repeats; after it, the event is stored again.
	waitUntil(t, "the event is stored again", func() bool {
		if err := publishOne(t, p, e); err != nil {
			t.Fatalf("a repeat: %v", err)
		}
		return len(r.stored("WINDOW")) == 2
	})
}

func TestAckTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publisher(PublisherConfig{AckTimeout: 100 * time.Millisecond, MaxInFlight: 4})
	r.proxy.muteServer(true)
	var sent []outbox.Envelope
	for i := range 10 {
		sent = append(sent, brokersuite.Event(fmt.Sprint(i), 1))
	}
	begin := time.Now()
	results := p.Publish(t.Context(), sent)
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("Publish took %v: after the first timeout nothing more should be sent", took)
	}
	for i, err := range results {
		if i < 4 {
			wantKind(t, err, outbox.FailureUnknown)
		} else {
			wantKind(t, err, outbox.FailureHeldBack)
		}
	}
	if n := p.js.PublishAsyncPending(); n != 0 {
		t.Errorf("%d acknowledgements are still waited for", n)
	}
	r.proxy.muteServer(false)
	r.proxy.cut() // what the proxy swallowed has left the connection's stream in pieces
	waitUntil(t, "it publishes again", func() bool { return publishOne(t, p, sent[9]) == nil })
}

func TestWindow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publisher(PublisherConfig{MaxInFlight: 3})
	r.proxy.muteServer(true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan []error, 2)
	for i := range 2 {
		go func() {
			var sent []outbox.Envelope
			for j := range 10 {
				sent = append(sent, brokersuite.Event(fmt.Sprint(i, j), 1))
			}
			done <- p.Publish(ctx, sent)
		}()
	}
	waitUntil(t, "the window is full", func() bool { return p.js.PublishAsyncPending() == 3 })
	cancel()
	unknown := 0
	for range 2 {
		for _, err := range <-done {
			if outbox.FailureKindOf(err) == outbox.FailureUnknown {
				unknown++
			}
		}
	}
	if unknown != 3 {
		t.Errorf("%d messages are unknown, want the 3 of the window", unknown)
	}
}

// Calls that compete for a small window must not wait for each other for ever.
func TestWindowIsShared(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publisher(PublisherConfig{MaxInFlight: 2})
	done := make(chan error, 6)
	for i := range cap(done) {
		go func() {
			var sent []outbox.Envelope
			for j := range 50 {
				sent = append(sent, brokersuite.Event(fmt.Sprint(i, j), 1))
			}
			done <- errors.Join(p.Publish(t.Context(), sent)...)
		}()
	}
	for range cap(done) {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the calls wait for each other")
		}
	}
}

func TestConnectionLostInFlight(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publisher(PublisherConfig{AckTimeout: time.Minute})
	arrived := make(chan struct{}, 10)
	r.proxy.dropIf(func(subject string, _ []byte) bool {
		if strings.HasPrefix(subject, "orders.") {
			arrived <- struct{}{}
			return true
		}
		return false
	})
	done := make(chan []error, 1)
	go func() {
		done <- p.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("a", 1), brokersuite.Event("b", 1), brokersuite.Event("a", 2)})
	}()
	<-arrived
	<-arrived
	r.proxy.cut()
	select {
	case results := <-done:
		wantKind(t, results[0], outbox.FailureUnknown)
		wantKind(t, results[1], outbox.FailureUnknown)
		wantKind(t, results[2], outbox.FailureHeldBack)
	case <-time.After(20 * time.Second):
		t.Fatal("Publish waits for acknowledgements of a lost connection")
	}
}

func TestNotConnected(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	// Not even where the connection would buffer.
	r.via = connect(t, "nats://"+r.proxy.addr(), nats.ReconnectBufSize(nats.DefaultReconnectBufSize))
	p := r.publisher(PublisherConfig{AckTimeout: 100 * time.Millisecond})
	r.server.Stop()
	waitUntil(t, "the connection is lost", func() bool { return r.via.Conn().Status() != nats.CONNECTED })
	wantUnavailable(t, p.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("a", 1), brokersuite.Event("b", 1)}))
	r.via.Conn().Close()
	wantKind(t, publishOne(t, p, brokersuite.Event("a", 1)), outbox.FailureUnavailable)
}

// Code that shares the JetStream context and lost its acknowledgements must not
// stall the publisher.
func TestSharedContextIsExhausted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	nc := r.via.Conn()
	shared, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Subscribe("hole", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := shared.PublishAsync("hole", nil); err != nil {
		t.Fatal(err)
	}
	p, err := NewPublisher(shared, PublisherConfig{Stream: stream})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := publishOne(t, p, brokersuite.Event("a", 1)); err != nil {
		t.Error(err)
	}
}

func TestPublisherLeaksNothing(t *testing.T) {
	r := newRig(t)
	p := r.publisher(PublisherConfig{AckTimeout: 50 * time.Millisecond})
	for n := 1; ; n++ { // on a busy machine an answer takes longer than that
		err := publishOne(t, p, brokersuite.Event("a", 1))
		if err == nil {
			break
		}
		if n == 100 {
			t.Fatal(err)
		}
	}
	before := runtime.NumGoroutine()
	r.proxy.muteServer(true)
	for i := range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		p.Publish(ctx, []outbox.Envelope{brokersuite.Event(fmt.Sprint(i), 1), brokersuite.Event(fmt.Sprint(i), 2)})
		cancel()
	}
	waitUntil(t, "the acknowledgements are given up", func() bool { return p.js.PublishAsyncPending() == 0 })
	if len(p.window) != 0 {
		t.Errorf("%d places of the window are still taken", len(p.window))
	}
	waitUntil(t, "the goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}

// A closed publisher sends nothing, and doesn't subscribe anew.
func TestPublishAfterClose(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publisher(PublisherConfig{})
	if err := publishOne(t, p, brokersuite.Event("a", 1)); err != nil {
		t.Fatal(err)
	}
	p.Close()
	results := p.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("a", 2), brokersuite.Event("a", 3)})
	wantUnavailable(t, results)
	if !errors.Is(results[0], ErrClosed) {
		t.Errorf("%v, want ErrClosed", results[0])
	}
	if n := len(r.stored(stream)); n != 1 {
		t.Errorf("%d events are stored, want the one before", n)
	}
	if n := r.via.Conn().NumSubscriptions(); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}
