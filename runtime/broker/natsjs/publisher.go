package natsjs

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Publisher publishes to one JetStream stream. It implements [outbox.Publisher];
// Publish may be called from many goroutines.
type Publisher struct {
	cfg    PublisherConfig
	js     jetstream.JetStream
	conn   *nats.Conn
	window chan struct{} // one token a message in flight
}

var _ outbox.Publisher = (*Publisher)(nil)

// NewPublisher makes a publisher on js's connection, which it neither opens nor
// closes; see [ConnOptions] for how to open it. It doesn't talk to the broker, and
// an error is always one of cfg.
//
// The publisher keeps its acknowledgements apart from js's own, so that code that
// shares js can't use up its window, nor the other way round.
func NewPublisher(js jetstream.JetStream, cfg PublisherConfig) (*Publisher, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	own, err := jetstream.New(js.Conn(),
		jetstream.WithPublishAsyncTimeout(cfg.AckTimeout),
		// Our own window is the limit. The library's would also count messages of
		// calls that have returned when their context ended.
		jetstream.WithPublishAsyncMaxPending(math.MaxInt32),
	)
	if err != nil {
		return nil, fmt.Errorf("natsjs: %w", err)
	}
	return &Publisher{cfg: cfg, js: own, conn: js.Conn(), window: make(chan struct{}, cfg.MaxInFlight)}, nil
}

// Close ends the subscription on which acknowledgements arrive. Publish calls
// that still wait get PublishUnknown. The connection stays open.
func (p *Publisher) Close() { p.js.CleanupPublisher() }

// Publish implements [outbox.Publisher]. An event is confirmed when the
// configured stream has acknowledged it, as new or as one that it has already.
//
// Events of one aggregate keep their order (see [PublisherConfig.Unordered]);
// those of different aggregates are on their way together. Once a failure shows
// that the broker takes nothing, and when ctx ends, no more is sent. Nothing is
// tried twice: that is the relay's to decide.
//
//   - Rejected: a reserved header, a bad subject or attribute, a message above the
//     connection's or the stream's size.
//   - Unavailable: not connected, no stream on the subject or another one than
//     configured ([ErrWrongStream]), stream full, sealed or offline; and what
//     wasn't sent ([ErrHeldBack]).
//   - Unknown: sent, and no acknowledgement before AckTimeout, the end of ctx or
//     of the connection. A server that forbids the subject to this user looks
//     like that too: NATS tells it to the connection's error handler only.
//   - Failed: any other answer of the server.
func (p *Publisher) Publish(ctx context.Context, messages []outbox.Envelope) []error {
	c := &call{publisher: p, ctx: ctx, results: make([]error, len(messages))}
	c.prepare(messages)
	c.run()
	return c.results
}

// call is one call of Publish.
type call struct {
	publisher *Publisher
	ctx       context.Context
	results   []error
	messages  []*nats.Msg
	followers []int // by message: the next one of its aggregate, or -1
	ready     []int // may be sent, in order
	flight    []inFlight
	stop      error // why nothing more is sent
}

type inFlight struct {
	index int
	ack   jetstream.PubAckFuture
}

// prepare encodes the messages, settles those that can never be sent, and finds
// out which of them wait for which.
func (c *call) prepare(envelopes []outbox.Envelope) {
	type aggregate struct{ typ, id string }
	last := make(map[aggregate]int)
	c.messages = make([]*nats.Msg, len(envelopes))
	c.followers = make([]int, len(envelopes))
	for i, e := range envelopes {
		c.followers[i] = -1
		m, err := encode(c.publisher.cfg.Subject(e), e)
		if err != nil {
			c.results[i] = outbox.PublishRejected(err)
			continue
		}
		m.Header[nats.MsgIdHdr] = []string{e.ID.String()}
		m.Header[nats.ExpectedStreamHdr] = []string{c.publisher.cfg.Stream}
		c.messages[i] = m
		key := aggregate{e.AggregateType, e.AggregateID}
		if previous, ok := last[key]; ok && !c.publisher.cfg.Unordered {
			c.followers[previous] = i
		} else {
			c.ready = append(c.ready, i)
		}
		last[key] = i
	}
}

// run sends what may be sent, as far as the window allows, and waits for the
// oldest acknowledgement whenever it can't send. Acknowledgements come in about
// the order of sending, so waiting for the oldest holds little up, and needs no goroutine.
func (c *call) run() {
	for len(c.ready) > 0 || len(c.flight) > 0 {
		if len(c.ready) == 0 || !c.enter() {
			if len(c.flight) > 0 {
				c.settleOldest()
			}
			continue
		}
		i := c.ready[0]
		c.ready = c.ready[1:]
		if !c.send(i) {
			<-c.publisher.window
		}
	}
}

// enter takes a place in the window. A call that has messages in flight doesn't
// wait for a place but reports false, to look after those first: calls that
// hold places and wait for more would wait for each other.
func (c *call) enter() bool {
	if len(c.flight) > 0 {
		select {
		case c.publisher.window <- struct{}{}:
			return true
		default:
			return false
		}
	}
	select {
	case c.publisher.window <- struct{}{}:
		return true
	case <-c.ctx.Done():
		c.refuseReady(notSent(c.ctx))
		return false
	}
}

// send reports whether the message is in flight; otherwise it is settled.
func (c *call) send(i int) bool {
	switch {
	case c.stop != nil:
		c.settle(i, heldBack(c.stop))
		return false
	case c.ctx.Err() != nil:
		c.settle(i, notSent(c.ctx))
		return false
	case c.publisher.conn.Status() != nats.CONNECTED:
		c.settle(i, outbox.PublishUnavailable(fmt.Errorf("not sent: connection is %s", c.publisher.conn.Status())))
		return false
	}
	// No retries by the library: it would send again after Publish has returned.
	ack, err := c.publisher.js.PublishMsgAsync(c.messages[i], jetstream.WithRetryAttempts(0))
	if err != nil {
		c.settle(i, sendError(err))
		return false
	}
	c.flight = append(c.flight, inFlight{index: i, ack: ack})
	return true
}

func (c *call) settleOldest() {
	oldest := c.flight[0]
	c.flight = c.flight[1:]
	select {
	case ack := <-oldest.ack.Ok():
		c.settle(oldest.index, c.checkAck(ack))
	case err := <-oldest.ack.Err():
		c.settle(oldest.index, ackError(c.publisher.cfg.Stream, err))
	case <-c.ctx.Done():
		c.settle(oldest.index, c.lastLook(oldest.ack))
	}
	<-c.publisher.window
}

// lastLook returns the outcome of a message at the end of ctx: an
// acknowledgement that is there counts.
func (c *call) lastLook(f jetstream.PubAckFuture) error {
	select {
	case ack := <-f.Ok():
		return c.checkAck(ack)
	case err := <-f.Err():
		return ackError(c.publisher.cfg.Stream, err)
	default:
		return unconfirmed(c.ctx)
	}
}

// checkAck accepts an acknowledgement, also one that says the stream had the
// event already: that is what a repeat after a lost acknowledgement gets.
func (c *call) checkAck(ack *jetstream.PubAck) error {
	if want := c.publisher.cfg.Stream; ack.Stream != want {
		return outbox.PublishUnavailable(fmt.Errorf("%w: %q acknowledged, want %q", ErrWrongStream, ack.Stream, want))
	}
	return nil
}

// settle records a message's outcome and what follows from it for the others.
func (c *call) settle(i int, err error) {
	c.results[i] = err
	follower := c.followers[i]
	if err != nil {
		switch outbox.FailureKindOf(err) {
		case outbox.FailureUnavailable, outbox.FailureUnknown:
			if c.stop == nil && !errors.Is(err, ErrHeldBack) {
				c.stop = err
			}
		case outbox.FailureFailed:
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

// refuseReady settles everything that waits to be sent, when nothing is in flight.
func (c *call) refuseReady(err error) {
	for len(c.ready) > 0 {
		i := c.ready[0]
		c.ready = c.ready[1:]
		c.settle(i, err)
	}
}
