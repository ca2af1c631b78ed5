package rabbitmq

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// Confirms carry tags that begin at 1 on each connection. Those of the old one, which are
// looked at while the new one has as many in flight, say nothing about the new messages.
func TestReconnectWithFiftyInFlight(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publisher(PublisherConfig{AckTimeout: 20 * time.Second, Route: func(e outbox.Envelope) (string, string) {
		if e.SchemaVersion == 2 {
			return r.name, "unbound"
		}
		return r.name, e.Type
	}})
	old, fresh := eventsOf(50), eventsOf(50)
	for i := range fresh {
		fresh[i].SchemaVersion = 2
	}
	// inFlight publishes over the next link, whose dispatcher waits, until all is confirmed.
	inFlight := func(messages []outbox.Envelope) (l *link, release func(), results chan []error) {
		release = stallNext(t, p)
		results = make(chan []error, 1)
		l, err := p.sender.connected(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		go func() { results <- p.Publish(t.Context(), messages) }()
		waitUntil(t, "the confirms are there", func() bool { return len(l.confirms) >= len(messages)-1 })
		return l, release, results
	}
	first, releaseOld, oldResults := inFlight(old)
	r.proxy.cut()
	waitUntil(t, "the connection is lost", func() bool { return !first.alive() })
	_, releaseFresh, freshResults := inFlight(fresh)
	releaseOld()
	receive(t, "the old link has ended", first.ended)
	releaseFresh()
	for _, err := range receive(t, "the new messages are settled", freshResults) {
		wantKind(t, err, outbox.FailureRejected)
	}
	for i, err := range receive(t, "the old messages are settled", oldResults) {
		if err != nil && outbox.FailureKindOf(err) != outbox.FailureUnknown {
			t.Errorf("old message %d: %v, want confirmed, or unknown", i, err)
		}
	}
}

func TestCutWithConfirmsOutstanding(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publisher(PublisherConfig{AckTimeout: 20 * time.Second})
	if err := publishOne(t, p, brokersuite.Event("a", 1)); err != nil {
		t.Fatal(err)
	}
	r.proxy.muteServer(true)
	sent := eventsOf(50)
	result := make(chan []error, 1)
	go func() { result <- p.Publish(t.Context(), sent) }()
	queue := r.queue("projector")
	waitUntil(t, "the broker has them", func() bool { return r.held(queue) == 51 })
	r.proxy.cut()
	for _, err := range receive(t, "Publish returns", result) {
		wantKind(t, err, outbox.FailureUnknown)
	}
	r.proxy.muteServer(false)
	waitUntil(t, "the publisher is back", func() bool { return errors.Join(p.Publish(t.Context(), sent)...) == nil })
}

func TestNoConfirm(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publisher(PublisherConfig{AckTimeout: 200 * time.Millisecond, MaxInFlight: 4})
	if err := publishOne(t, p, brokersuite.Event("a", 1)); err != nil {
		t.Fatal(err)
	}
	r.proxy.muteServer(true)
	sent := eventsOf(20)
	results := p.Publish(t.Context(), sent)
	if n := count(results); n["unknown"] != 4 || n["held back"] != 16 {
		t.Errorf("%v, want the window unknown and the others not sent", n)
	}
	r.proxy.muteServer(false)
	// The window is free again, since the connection was given up.
	waitUntil(t, "the publisher is back", func() bool { return errors.Join(p.Publish(t.Context(), sent)...) == nil })
}

// The broker has stopped reading: what is written fills the buffers on the way and then
// blocks. Publish returns when its context ends all the same, or the write's time is over.
func TestWriteBlocks(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]struct{ context, write time.Duration }{
		"the context ends": {300 * time.Millisecond, time.Minute},
		"WriteTimeout":     {time.Minute, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c := r.via()
			c.WriteTimeout = limit.write
			p, err := NewPublisher(c, PublisherConfig{Topology: r.topology, AckTimeout: 20 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if err := publishOne(t, p, brokersuite.Event("a", 1)); err != nil {
				t.Fatal(err)
			}
			r.proxy.stick()
			sent := eventsOf(200)
			for i := range sent {
				sent[i].Data = []byte(`"` + strings.Repeat("x", 100_000) + `"`)
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit.context)
			defer cancel()
			result := make(chan []error, 1)
			began := time.Now()
			go func() { result <- p.Publish(ctx, sent) }()
			n := count(receive(t, "Publish returns", result))
			if n["unknown"] == 0 || n[""] > 0 || n["unknown"]+n["unavailable"]+n["held back"] != len(sent) {
				t.Errorf("%v", n)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("Publish took %v", took)
			}
			r.proxy.unstick()
			r.proxy.cut()
			waitUntil(t, "the publisher is back", func() bool { return publishOne(t, p, brokersuite.Event("a", 2)) == nil })
		})
	}
}

func TestCloseWhilePublishing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publisher(PublisherConfig{AckTimeout: 20 * time.Second})
	if err := publishOne(t, p, brokersuite.Event("a", 1)); err != nil {
		t.Fatal(err)
	}
	r.proxy.muteServer(true)
	result := make(chan error, 1)
	go func() { result <- publishOne(t, p, brokersuite.Event("a", 2)) }()
	waitUntil(t, "the broker has it", func() bool { return r.held(r.queue("projector")) == 2 })
	p.Close()
	wantKind(t, receive(t, "Publish returns", result), outbox.FailureUnknown)
	wantKind(t, publishOne(t, p, brokersuite.Event("a", 3)), outbox.FailureUnavailable)
}

// One connector serves many connections, at the same time and one after the other.
func TestSharedConnector(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.via()
	c.Config.SASL = []amqp.Authentication{&amqp.PlainAuth{Username: "guest", Password: "guest"}}
	c.Config.Properties = amqp.Table{"connection_name": "shared"}
	var publishers sync.WaitGroup
	for range 4 {
		publishers.Go(func() {
			p, err := NewPublisher(c, PublisherConfig{Topology: r.topology, Backoff: time.Millisecond, MaxBackoff: time.Millisecond})
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Close()
			for n := range int64(3) {
				if err := publishOne(t, p, brokersuite.Event("a", n)); err != nil {
					t.Errorf("connection %d: %v", n+1, err)
					return
				}
				p.sender.link.kill(errors.New("cut by the test"))
			}
		})
	}
	publishers.Wait()
	if len(c.Config.Properties) != 1 {
		t.Errorf("the connector's properties were changed: %v", c.Config.Properties)
	}
}

func TestNotConnected(t *testing.T) {
	t.Parallel()
	p, err := NewPublisher(Connector{URLs: []string{"amqp://guest:guest@127.0.0.1:1/"}}, PublisherConfig{Exchange: "x", Backoff: time.Minute, MaxBackoff: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 3 {
		began := time.Now()
		err := publishOne(t, p, brokersuite.Event("a", 1))
		wantKind(t, err, outbox.FailureUnavailable)
		if time.Since(began) > 5*time.Second {
			t.Error("it waited for the next attempt to connect")
		}
		if strings.Contains(err.Error(), "guest:guest") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}
