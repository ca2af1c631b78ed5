package rabbitmq

import (
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// A return is of the oldest message with that id on its way to that place.
func TestReturnOfAnEventTwice(t *testing.T) {
	t.Parallel()
	l := &link{pending: make(map[uint64]*sent)}
	for tag := uint64(1); tag <= 20; tag++ { // so that no order of a map passes
		l.pending[tag] = &sent{tag: tag, id: "e", exchange: "x", key: "k"}
	}
	for tag := uint64(1); tag <= 20; tag++ {
		l.noteReturn(amqp.Return{MessageId: "e", Exchange: "x", RoutingKey: "other"})
		l.noteReturn(amqp.Return{MessageId: "e", Exchange: "other", RoutingKey: "k"})
		l.noteReturn(amqp.Return{MessageId: "other", Exchange: "x", RoutingKey: "k"})
		l.noteReturn(amqp.Return{MessageId: "e", Exchange: "x", RoutingKey: "k"})
		for _, s := range l.pending {
			if returned := s.returned != nil; returned != (s.tag <= tag) {
				t.Fatalf("after %d returns message %d is marked: %v", tag, s.tag, returned)
			}
		}
	}
}

// The connection is given up when the broker has said nothing for AckTimeout, and no
// sooner, and not while it says that it is blocked.
func TestStalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &link{timeout: time.Minute}
		l.confirm(amqp.Confirmation{DeliveryTag: 1})
		time.Sleep(time.Minute - 1)
		if l.stalled() {
			t.Error("before its time")
		}
		l.confirm(amqp.Confirmation{DeliveryTag: 2})
		time.Sleep(time.Minute - 1)
		if l.stalled() {
			t.Error("a confirm doesn't count")
		}
		time.Sleep(time.Nanosecond)
		if !l.stalled() {
			t.Error("never")
		}
		l.blocked.Store(true)
		if l.stalled() {
			t.Error("while it is blocked")
		}
	})
}

// With the window full of what an alarm keeps from being confirmed, Publish doesn't wait.
func TestBlockedAndWindowFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSender(Connector{}, 1, time.Minute, time.Second, time.Second)
		s.link = &link{channel: new(amqp.Channel)}
		s.link.blocked.Store(true)
		s.window <- struct{}{}
		p := &Publisher{cfg: PublisherConfig{Exchange: "x"}, sender: s}
		began := time.Now()
		err := p.Publish(t.Context(), []outbox.Envelope{brokersuite.Event("a", 1)})[0]
		wantKind(t, err, outbox.FailureUnavailable)
		wantIs(t, err, ErrBlocked)
		if took := time.Since(began); took != 0 {
			t.Errorf("it waited for %v", took)
		}
	})
}

// Events of one aggregate wait for each other, unless the outbox has no order.
func TestUnordered(t *testing.T) {
	t.Parallel()
	for unordered, want := range map[bool]int{false: 1, true: 3} {
		p := &Publisher{cfg: PublisherConfig{Exchange: "x", Unordered: unordered}}
		c := &call{publisher: p, results: make([]error, 3)}
		c.prepare([]outbox.Envelope{brokersuite.Event("a", 1), brokersuite.Event("a", 2), brokersuite.Event("a", 3)})
		if len(c.ready) != want {
			t.Errorf("unordered %v: %d of 3 may be sent at once, want %d", unordered, len(c.ready), want)
		}
	}
}
