package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// call is one call of Publish.
type call struct {
	publisher *Publisher
	ctx       context.Context //nolint:containedctx // of the call
	results   []error
	records   []*kgo.Record
	followers []int // by message: the next one of its aggregate, or -1
	ready     []int // may be sent, in order
	session   *session
	finished  chan outcome // with room for all messages
	flight    int          // how many the session has
	sent      []sending    // in the order of sending; those that landed are dropped late
	landed    []bool       // by message
	stop      error        // why nothing more is sent
	remade    bool         // a topic was deleted and made anew
}

type sending struct {
	index int
	until time.Time // end of its AckTimeout
}

// outcome is what the client says of a record.
type outcome struct {
	index int
	err   error // classified
}

// prepare encodes the messages, settles those that can't be sent, and finds
// out which of them wait for which.
func (c *call) prepare(envelopes []outbox.Envelope) {
	type aggregate struct{ typ, id string }
	last := make(map[aggregate]int)
	blocked := make(map[aggregate]error)
	c.records = make([]*kgo.Record, len(envelopes))
	c.followers = make([]int, len(envelopes))
	c.landed = make([]bool, len(envelopes))
	for i, e := range envelopes {
		c.followers[i] = -1
		key := aggregate{e.AggregateType, e.AggregateID}
		r, err := encode(e)
		if err != nil {
			c.results[i] = outbox.PublishRejected(err)
			continue
		}
		if c.publisher.cfg.Unordered {
			key = aggregate{}
		} else if first := blocked[key]; first != nil {
			c.results[i] = heldBack(first)
			continue
		}
		if r.Topic, err = c.publisher.cfg.topicOf(e); err != nil {
			c.results[i] = outbox.PublishFailed(err)
			if !c.publisher.cfg.Unordered {
				blocked[key] = c.results[i]
			}
			continue
		}
		c.records[i] = r
		if previous, ok := last[key]; ok && !c.publisher.cfg.Unordered {
			c.followers[previous] = i
		} else {
			c.ready = append(c.ready, i)
		}
		last[key] = i
	}
}

// run sends what may be sent and settles what comes back.
func (c *call) run() {
	var err error
	if c.session, err = c.publisher.session(&c.publisher.bulk); err != nil {
		c.stop = outbox.PublishUnavailable(err)
	}
	timeout := time.NewTimer(c.publisher.cfg.AckTimeout)
	defer timeout.Stop()
	for {
		c.sendReady()
		if c.flight == 0 {
			if c.remade {
				c.publisher.discard(c.session)
			}
			return
		}
		timeout.Reset(time.Until(c.oldest()))
		select {
		case o := <-c.finished:
			c.land(o)
		case <-c.ctx.Done():
			c.abandon(context.Cause(c.ctx))
		case <-timeout.C:
			c.abandon(fmt.Errorf("no acknowledgement in %v", c.publisher.cfg.AckTimeout))
		}
	}
}

// oldest is when the message that has waited longest has waited enough.
func (c *call) oldest() time.Time {
	for c.landed[c.sent[0].index] {
		c.sent = c.sent[1:]
	}
	return c.sent[0].until
}

func (c *call) sendReady() {
	for len(c.ready) > 0 {
		i := c.ready[0]
		c.ready = c.ready[1:]
		switch {
		case c.stop != nil && c.session == nil:
			c.settle(i, c.stop)
		case c.stop != nil:
			c.settle(i, heldBack(c.stop))
		case c.ctx.Err() != nil:
			c.settle(i, notSent(c.ctx))
		default:
			c.flight++
			c.sent = append(c.sent, sending{i, time.Now().Add(c.publisher.cfg.AckTimeout)})
			c.session.send(c.records[i], func(err error) { c.finished <- outcome{i, err} })
			_ = fault.At(c.ctx, fault.RelaySent)
		}
	}
}

// send hands a record to the client. done is called once, with an error that is
// classified.
func (s *session) send(r *kgo.Record, done func(error)) {
	r.Partition = unpartitioned
	r.Context = context.Background() // the client is given up as a whole, not by record
	h := s.handover()
	s.client.Produce(r.Context, r, func(r *kgo.Record, err error) {
		if err != nil {
			err = produceError(err, s.trail(h, r.Partition))
		}
		done(err)
	})
}

// land takes a record's outcome. A record that was refused with its batch is tried
// alone: another one may be to blame.
func (c *call) land(o outcome) {
	c.flight--
	c.landed[o.index] = true
	c.remade = c.remade || isRemade(o.err)
	switch {
	case blamesMessage(o.err) && c.stop != nil:
		o.err = heldBack(o.err)
	case blamesMessage(o.err):
		o.err = c.publishAlone(c.records[o.index])
	}
	c.settle(o.index, o.err)
}

// abandon ends the session and settles what it had: what was sent is unknown, unless
// its answer came at the last moment.
func (c *call) abandon(cause error) {
	if c.stop == nil {
		c.stop = outbox.PublishUnavailable(cause)
	}
	c.publisher.discard(c.session)
	for c.flight > 0 {
		o := <-c.finished
		if o.err != nil {
			o.err = &outbox.PublishError{Kind: outbox.FailureKindOf(o.err), Err: fmt.Errorf("%w: %w", cause, errors.Unwrap(o.err))}
		}
		c.land(o)
	}
}

// publishAlone sends a record in a batch of its own, so that what the broker says
// of the batch is said of the record.
func (c *call) publishAlone(r *kgo.Record) error {
	p := c.publisher
	timeout := time.NewTimer(p.cfg.AckTimeout)
	defer timeout.Stop()
	select {
	case p.alone <- struct{}{}:
		defer func() { <-p.alone }()
	case <-c.ctx.Done():
		return notSent(c.ctx)
	case <-timeout.C:
		return outbox.PublishHeldBack(errors.New("not sent: other messages are being tried alone"))
	}
	s, err := p.session(&p.single)
	if err != nil {
		return outbox.PublishUnavailable(err)
	}
	done := make(chan error, 1)
	fresh := &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value, Headers: r.Headers}
	s.send(fresh, func(err error) { done <- err })
	select {
	case err := <-done:
		if isRemade(err) {
			p.discard(s)
		}
		return err
	case <-c.ctx.Done():
	case <-timeout.C:
	}
	p.discard(s)
	return <-done
}

// settle records a message's outcome and what follows from it for the others.
func (c *call) settle(i int, err error) {
	c.results[i] = err
	follower := c.followers[i]
	if err != nil {
		switch outbox.FailureKindOf(err) {
		case outbox.FailureUnavailable, outbox.FailureUnknown:
			if c.stop == nil {
				c.stop = err
			}
		case outbox.FailureFailed, outbox.FailureHeldBack:
			for ; follower >= 0; follower = c.followers[follower] {
				c.results[follower] = heldBack(err)
			}
		case outbox.FailureRejected: // it is dead and out of its followers' way
		}
	}
	if follower >= 0 {
		c.ready = append(c.ready, follower)
	}
}
