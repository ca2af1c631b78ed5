package rabbitmq

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// checkStored requires that the queue holds each event that was confirmed.
func checkStored(t *testing.T, stored, sent []outbox.Envelope, results []error) {
	t.Helper()
	have := make(map[uuid.UUID]bool, len(stored))
	for _, e := range stored {
		have[e.ID] = true
	}
	for i, e := range sent {
		if results[i] == nil && !have[e.ID] {
			t.Fatalf("event %d was confirmed and is not stored", i)
		}
	}
}

// count returns how many results are of each kind; those confirmed are under "".
func count(results []error) map[string]int {
	n := make(map[string]int)
	for _, err := range results {
		if err == nil {
			n[""]++
		} else {
			n[outbox.FailureKindOf(err).String()]++
		}
	}
	return n
}

// stallOnce makes the dispatcher of the publisher's next link wait until release is called.
func stallOnce(t *testing.T, p *Publisher) (release func()) {
	t.Helper()
	c := make(chan struct{})
	release = sync.OnceFunc(func() { close(c) })
	t.Cleanup(release)
	p.sender.mu.Lock()
	defer p.sender.mu.Unlock()
	p.sender.stall = func() { <-c }
	return release
}

// The client library throws a return away when nobody takes it for five seconds. Nobody
// does for longer, and the one message that nobody gets is found all the same.
func TestOneUnroutableInAThousand(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sent := eventsOf(1000)
	lost := sent[700].ID
	p := r.publisher(PublisherConfig{MaxInFlight: 1000, AckTimeout: 25 * time.Second, Route: func(e outbox.Envelope) (string, string) {
		if e.ID == lost {
			return r.name, "nobody.wants.this"
		}
		return r.name, e.Type
	}})
	release := stallOnce(t, p)
	time.AfterFunc(6*time.Second, release) // longer than the library's patience, which can't be set
	results := p.Publish(t.Context(), sent)
	for i, err := range results {
		if sent[i].ID == lost {
			wantKind(t, err, outbox.FailureRejected)
			wantIs(t, err, ErrUnroutable)
		} else if err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
	}
	checkStored(t, r.stored(r.queue("projector")), sent, results)
}

// Returns and confirms that wait together are read in the order that counts: no confirm is
// believed before the returns that came ahead of it.
func TestReturnsBeforeConfirms(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publisher(PublisherConfig{MaxInFlight: 300, AckTimeout: 20 * time.Second, Route: func(outbox.Envelope) (string, string) {
		return r.name, "unbound"
	}})
	release := stallOnce(t, p)
	l, err := p.sender.connected(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan []error, 1)
	go func() { result <- p.Publish(t.Context(), eventsOf(300)) }()
	waitUntil(t, "all returns and confirms are there", func() bool { return len(l.confirms)+len(l.returns) >= 599 })
	release()
	if n := count(receive(t, "Publish returns", result)); n["rejected"] != 300 {
		t.Errorf("%v, want all rejected", n)
	}
}

// Should a return get lost after all, no confirm is believed.
func TestReturnsBufferFull(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	returns := make(chan amqp.Return, 1)
	l := &link{conn: &connection{socket: &socket{Conn: ours}}, pending: map[uint64]*sent{1: {tag: 1}}, returns: returns}
	returns <- amqp.Return{MessageId: "another one's"}
	l.drainReturns()
	l.confirm(amqp.Confirmation{DeliveryTag: 1, Ack: true})
	if len(l.pending) != 1 || !l.dead {
		t.Error("a confirm was believed after a return may have been lost")
	}
	wantIs(t, l.cause, errReturnsLost)
}

func TestUnboundKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, second, third := brokersuite.Event("a", 1), brokersuite.Event("a", 2), brokersuite.Event("a", 3)
	p := r.publisher(PublisherConfig{Route: func(e outbox.Envelope) (string, string) {
		if e.ID == second.ID {
			return r.name, "unbound"
		}
		return r.name, e.Type
	}})
	results := p.Publish(t.Context(), []outbox.Envelope{first, second, third})
	wantKind(t, results[1], outbox.FailureRejected)
	wantIs(t, results[1], ErrUnroutable)
	if results[0] != nil || results[2] != nil {
		t.Errorf("its neighbours: %v, %v", results[0], results[2])
	}
}

func TestUnknownType(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := brokersuite.Event("a", 1)
	e.Type = "order.unheard"
	results := r.publisher(PublisherConfig{}).Publish(t.Context(), []outbox.Envelope{e, brokersuite.Event("a", 2), brokersuite.Event("b", 1)})
	wantKind(t, results[0], outbox.FailureFailed)
	wantKind(t, results[1], outbox.FailureHeldBack)
	if results[2] != nil {
		t.Errorf("another aggregate: %v", results[2])
	}
}

func TestFullQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.declare("small", amqp.Table{"x-max-length": 3, "x-overflow": "reject-publish"})
	p := r.publisher(PublisherConfig{Route: func(outbox.Envelope) (string, string) { return "", r.queue("small") }})
	sent := eventsOf(6)
	results := p.Publish(t.Context(), sent)
	checkStored(t, r.stored(r.queue("small")), sent, results)
	if n := count(results); n[""] < 3 || n["failed"] == 0 || n[""]+n["failed"] != 6 {
		t.Errorf("%v, want as many confirmed as fit, the others failed", n)
	}
	wantIs(t, results[5], ErrNacked)
}

// Confirms carry tags that begin at 1 on each connection. Those of the old one, which are
// looked at when the new one has as many in flight, say nothing about the new messages.
func TestReconnectWithFiftyInFlight(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publisher(PublisherConfig{AckTimeout: 20 * time.Second, Route: func(e outbox.Envelope) (string, string) {
		if e.SchemaVersion == 2 {
			return r.name, "unbound"
		}
		return r.name, e.Type
	}})
	release := stallOnce(t, p)
	old, fresh := eventsOf(50), eventsOf(50)
	for i := range fresh {
		fresh[i].SchemaVersion = 2
	}
	oldResults, freshResults := make(chan []error, 1), make(chan []error, 1)
	go func() { oldResults <- p.Publish(t.Context(), old) }()
	queue := r.queue("projector")
	waitUntil(t, "the old messages are there", func() bool { return r.held(queue) == 50 })
	p.sender.mu.Lock()
	first := p.sender.link
	p.sender.stall = nil
	p.sender.mu.Unlock()
	waitUntil(t, "their confirms are there", func() bool { return len(first.confirms) >= 49 })
	r.proxy.cut()
	waitUntil(t, "the connection is lost", func() bool { return !first.alive() })
	go func() { freshResults <- p.Publish(t.Context(), fresh) }()
	for _, err := range receive(t, "the new messages are settled", freshResults) {
		wantKind(t, err, outbox.FailureRejected)
	}
	release()
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

// The client library empties a password once it has logged in.
func TestReconnectLogsIn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.via()
	c.Config.SASL = []amqp.Authentication{&amqp.PlainAuth{Username: "guest", Password: "guest"}}
	p, err := NewPublisher(c, PublisherConfig{Topology: r.topology, Backoff: time.Millisecond, MaxBackoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for n := range int64(3) {
		if err := publishOne(t, p, brokersuite.Event("a", n)); err != nil {
			t.Fatalf("connection %d: %v", n+1, err)
		}
		l := p.sender.link
		r.proxy.cut()
		waitUntil(t, "the connection is lost", func() bool { return !l.alive() })
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

func TestPublisherSettings(t *testing.T) {
	t.Parallel()
	good := Connector{URLs: []string{"amqp://127.0.0.1/"}}
	for name, c := range map[string]struct {
		connector Connector
		cfg       PublisherConfig
	}{
		"no URL":      {Connector{}, PublisherConfig{Exchange: "x"}},
		"bad URL":     {Connector{URLs: []string{"http://user:secret@x"}}, PublisherConfig{Exchange: "x"}},
		"no place":    {good, PublisherConfig{}},
		"two places":  {good, PublisherConfig{Exchange: "x", Route: func(outbox.Envelope) (string, string) { return "", "q" }}},
		"negative":    {good, PublisherConfig{Exchange: "x", AckTimeout: -1}},
		"long key":    {good, PublisherConfig{Topology: outbox.Topology{Events: []outbox.EventTopology{{Type: "t", Exchange: "x", Key: strings.Repeat("k", 256)}}}}},
		"event lacks": {good, PublisherConfig{Topology: outbox.Topology{Events: []outbox.EventTopology{{Type: "t"}}}}},
	} {
		_, err := NewPublisher(c.connector, c.cfg)
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows a password: %v", name, err)
		}
	}
}
