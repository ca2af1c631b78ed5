package rabbitmq

import (
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

// stallNext makes the dispatcher of the publisher's next link wait until release is called.
func stallNext(t *testing.T, p *Publisher) (release func()) {
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
	release := stallNext(t, p)
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
	release := stallNext(t, p)
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
