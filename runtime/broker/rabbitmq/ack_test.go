package rabbitmq

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// ackCounter reads what clients send as AMQP frames and counts acknowledgements.
type ackCounter struct {
	t   *testing.T
	buf []byte
	ack func(tag uint64)
}

func (a *ackCounter) write(b []byte) {
	a.buf = append(a.buf, b...)
	if len(a.buf) >= 8 && string(a.buf[:4]) == "AMQP" {
		a.buf = a.buf[8:]
	}
	for len(a.buf) >= 7 {
		size := int(binary.BigEndian.Uint32(a.buf[3:7])) + 8
		if len(a.buf) < size {
			return
		}
		frame := a.buf[:size]
		a.buf = a.buf[size:]
		if frame[0] == 1 && binary.BigEndian.Uint16(frame[7:]) == 60 && binary.BigEndian.Uint16(frame[9:]) == 80 {
			if frame[19] != 0 {
				a.t.Error("an acknowledgement of several messages at once")
			}
			a.ack(binary.BigEndian.Uint64(frame[11:]))
		}
	}
}

// Each acknowledgement that goes over the wire comes after the handler's return for that
// message. The handler's return stands for the commit.
func TestAckAfterHandle(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p, err := NewPublisher(r.connector(), PublisherConfig{Topology: r.topology}) // not through the proxy
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	const n = 500
	sent := eventsOf(n)
	if got := count(publishAll(t, p, sent, nil)); got[""] != n {
		t.Fatalf("%v", got)
	}
	var returned [n + 1]atomic.Bool // by delivery tag: one channel, events in their order
	var acks atomic.Int64
	position := make(map[uuid.UUID]int, n)
	for i, e := range sent {
		position[e.ID] = i + 1
	}
	counter := &ackCounter{t: t, ack: func(tag uint64) {
		acks.Add(1)
		if tag > n || !returned[tag].Load() {
			t.Errorf("message %d was acknowledged before its handler had returned", tag)
		}
	}}
	r.proxy.mu.Lock()
	r.proxy.wrote = counter.write
	r.proxy.mu.Unlock()
	cfg := r.subscribeConfig()
	cfg.Concurrency = 8
	r.subscribe(handler{name: "projector", handle: func(_ context.Context, e outbox.Envelope) error {
		time.Sleep(time.Millisecond) // work, so that an early acknowledgement would show
		returned[position[e.ID]].Store(true)
		return nil
	}}, cfg)
	waitUntil(t, "everything is acknowledged", func() bool { return r.unacked("projector") == 0 })
	if acks.Load() != n {
		t.Errorf("%d acknowledgements seen, want %d", acks.Load(), n)
	}
}

func TestCutMidHandler(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p, err := NewPublisher(r.connector(), PublisherConfig{Topology: r.topology})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	entered, release := make(chan struct{}, 10), make(chan struct{})
	stats := new(outbox.SubscribeStats)
	cfg := r.subscribeConfig()
	cfg.Stats = stats
	r.subscribe(handler{name: "projector", handle: func(context.Context, outbox.Envelope) error {
		entered <- struct{}{}
		<-release
		return nil
	}}, cfg)
	if err := publishOne(t, p, brokersuite.Event("a", 1)); err != nil {
		t.Fatal(err)
	}
	receive(t, "the handler is called", entered)
	r.proxy.cut()
	waitUntil(t, "it is delivered again", func() bool { return stats.Delivered.Load() == 2 })
	close(release)
	receive(t, "the handler is called again", entered)
	waitUntil(t, "it is acknowledged", func() bool { return r.unacked("projector") == 0 && stats.Acked.Load() == 1 })
	if failed, n := stats.AckFailed.Load(), stats.Delivered.Load(); failed != 1 || n != 2 {
		t.Errorf("%d lost acknowledgements, %d deliveries; want 1 and 2", failed, n)
	}
}

// A handler fails whose connection has been lost: the broker delivers the message again by
// itself, and it isn't put aside as well.
func TestCutBeforeFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p, err := NewPublisher(r.connector(), PublisherConfig{Topology: r.topology})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	entered, release := make(chan struct{}, 10), make(chan error, 10)
	cfg := r.subscribeConfig()
	cfg.Stats = new(outbox.SubscribeStats)
	r.subscribe(handler{name: "projector", handle: func(context.Context, outbox.Envelope) error {
		entered <- struct{}{}
		return <-release
	}}, cfg)
	if err := publishOne(t, p, brokersuite.Event("a", 1)); err != nil {
		t.Fatal(err)
	}
	receive(t, "the handler is called", entered)
	r.proxy.cut()
	waitUntil(t, "it is delivered again", func() bool { return cfg.Stats.Delivered.Load() == 2 })
	release <- errors.New("once")
	receive(t, "the handler is called again", entered)
	waitUntil(t, "no copy waits", func() bool { return r.unacked("projector") == 1 })
	release <- nil
	waitUntil(t, "it is acknowledged", func() bool { return r.unacked("projector") == 0 })
	if n := cfg.Stats.Delivered.Load(); n != 2 {
		t.Errorf("%d deliveries, want 2", n)
	}
}

// A message that is put aside acknowledges itself alone, and not those in front of it.
func TestPutAsideAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p, err := NewPublisher(r.connector(), PublisherConfig{Topology: r.topology})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	running, release := make(chan struct{}, 10), make(chan struct{})
	var failed atomic.Bool
	cfg := r.subscribeConfig()
	cfg.Concurrency, cfg.Stats = 2, new(outbox.SubscribeStats)
	r.subscribe(handler{name: "projector", handle: func(_ context.Context, e outbox.Envelope) error {
		if e.AggregateID == "slow" {
			running <- struct{}{}
			<-release
			return nil
		}
		if failed.CompareAndSwap(false, true) {
			return errors.New("once")
		}
		return nil
	}}, cfg)
	for _, aggregate := range []string{"slow", "other"} {
		if err := publishOne(t, p, brokersuite.Event(aggregate, 1)); err != nil {
			t.Fatal(err)
		}
	}
	receive(t, "the slow handler is called", running)
	waitUntil(t, "the other one is handled after it has waited", func() bool { return cfg.Stats.Acked.Load() == 1 })
	r.proxy.cut()
	waitUntil(t, "the slow one is delivered again", func() bool { return cfg.Stats.Redelivered.Load() == 2 })
	close(release)
	receive(t, "the slow handler is called again", running)
	waitUntil(t, "all is acknowledged", func() bool { return r.unacked("projector") == 0 })
}
