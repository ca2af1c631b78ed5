package rabbitmq

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// call is one call of Publish.
type call struct {
	publisher *Publisher
	ctx       context.Context //nolint:containedctx // a call's own
	results   []error
	messages  []message
	followers []int // by message: the next one of its aggregate, or -1
	ready     []int // may be sent, in order
	flight    []inFlight
	stop      error // why nothing more is sent
}

// message is one that can be sent, or whose failure is known and counts when its turn comes.
type message struct {
	exchange, key string
	publishing    amqp.Publishing
	err           error
}

type inFlight struct {
	index int
	link  *link
	sent  *sent
}

// run sends what may be sent, as far as the window allows, and waits for the oldest
// confirm whenever it can't send. Confirms come in the order of sending, so that
// waiting for the oldest holds nothing up, and needs no goroutine.
func (c *call) run() {
	for len(c.ready) > 0 || len(c.flight) > 0 {
		if len(c.ready) == 0 || c.linkLost() || !c.enter() {
			if len(c.flight) > 0 {
				c.settleOldest()
			}
			continue
		}
		i := c.ready[0]
		c.ready = c.ready[1:]
		c.send(i)
	}
}

// linkLost reports whether what is in flight is in doubt. It is looked after first: it may
// show that nothing more should be sent.
func (c *call) linkLost() bool {
	n := len(c.flight)
	return n > 0 && !c.flight[n-1].link.alive()
}

// enter takes a place in the window. A call that has messages in flight doesn't wait for a
// place but reports false, to look after those first: calls that hold places and
// wait for more would wait for each other.
func (c *call) enter() bool {
	s := c.publisher.sender
	if c.stop != nil {
		c.refuseReady(heldBackError(c.stop))
		return false
	}
	select {
	case s.window <- struct{}{}:
		return true
	default:
	}
	if len(c.flight) > 0 {
		return false
	}
	if s.isBlocked() { // and what fills the window won't be confirmed soon
		c.refuseReady(notSentError(ErrBlocked))
		return false
	}
	timer := time.NewTimer(s.timeout)
	defer timer.Stop()
	select {
	case s.window <- struct{}{}:
		return true
	case <-c.ctx.Done():
		c.refuseReady(notSentError(context.Cause(c.ctx)))
	case <-timer.C:
		c.refuseReady(notSentError(errNoRoom))
	}
	return false
}

// send sends a message or settles it. The place in the window is the sender's from here.
func (c *call) send(i int) {
	s := c.publisher.sender
	m := c.messages[i]
	if m.err != nil {
		<-s.window
		c.settle(i, m.err)
		return
	}
	l, sent, err := s.send(c.ctx, m.exchange, m.key, m.publishing)
	if err != nil {
		c.settle(i, err)
		return
	}
	_ = fault.At(c.ctx, fault.RelaySent)
	c.flight = append(c.flight, inFlight{index: i, link: l, sent: sent})
}

func (c *call) settleOldest() {
	oldest := c.flight[0]
	c.flight = c.flight[1:]
	c.settle(oldest.index, c.publisher.sender.wait(c.ctx, oldest.link, oldest.sent))
}

// settle records a message's outcome and what follows from it for the others.
func (c *call) settle(i int, err error) {
	c.results[i] = err
	follower := c.followers[i]
	if err == nil || outbox.FailureKindOf(err) == outbox.FailureRejected { // out of its followers' way
		if follower >= 0 {
			c.ready = append(c.ready, follower)
		}
		return
	}
	for ; follower >= 0; follower = c.followers[follower] {
		c.results[follower] = heldBackError(err)
	}
	switch outbox.FailureKindOf(err) {
	case outbox.FailureUnavailable, outbox.FailureUnknown:
		// A missing exchange is the trouble of those alone that go there.
		if c.stop == nil && !errors.Is(err, ErrNoExchange) {
			c.stop = err
		}
	}
}

// refuseReady settles everything that waits to be sent.
func (c *call) refuseReady(err error) {
	for len(c.ready) > 0 {
		i := c.ready[0]
		c.ready = c.ready[1:]
		c.settle(i, err)
	}
}
