package natsjs

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Publisher publishes to JetStream streams. It implements [outbox.Publisher];
// Publish may be called from many goroutines.
type Publisher struct {
	cfg    PublisherConfig
	places map[string]outbox.EventTopology // by event type; nil without a topology
	js     jetstream.JetStream
	conn   *nats.Conn
	window chan struct{} // one token a message in flight

	closing sync.RWMutex // held while a message is sent, and to close
	closed  bool
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
	return &Publisher{
		cfg: cfg, places: placesOf(cfg.Topology),
		js: own, conn: js.Conn(), window: make(chan struct{}, cfg.MaxInFlight),
	}, nil
}

// Close ends the publisher. Publish calls that still wait get PublishUnknown, later ones
// [ErrClosed]. The connection stays open.
func (p *Publisher) Close() {
	p.closing.Lock()
	defer p.closing.Unlock()
	p.closed = true
	p.js.CleanupPublisher()
}

// publish hands a message to the connection. A closed publisher doesn't: it would
// subscribe to acknowledgements anew.
func (p *Publisher) publish(m *nats.Msg) (jetstream.PubAckFuture, error) {
	p.closing.RLock()
	defer p.closing.RUnlock()
	if p.closed {
		return nil, outbox.PublishUnavailable(ErrClosed)
	}
	// No retries by the library: it would send again after Publish has returned.
	ack, err := p.js.PublishMsgAsync(m, jetstream.WithRetryAttempts(0))
	if err != nil {
		return nil, sendError(err)
	}
	return ack, nil
}

// Publish implements [outbox.Publisher]. An event is confirmed when its stream
// has acknowledged it, as new or as one that it has already.
//
// Events of one aggregate keep their order (see [PublisherConfig.Unordered]);
// those of different aggregates are on their way together. Once a failure shows
// that a stream takes nothing, no more is sent to it, and when ctx ends, none at
// all. Nothing is tried twice: that is the relay's to decide.
//
//   - Rejected: a reserved header, a bad subject or attribute, a message above the
//     connection's or the stream's size.
//   - Unavailable: not connected or closed ([ErrClosed]), no stream on the subject or another one than
//     configured ([ErrWrongStream]), stream full, sealed or offline; and an event of a
//     type that the topology doesn't have ([ErrNoPlace]), which stops no other.
//   - Held back: not sent because of another one ([ErrHeldBack]).
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
	stop      map[string]error // by stream: why nothing more is sent to it
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
	noPlace := make(map[aggregate]error)
	for i, e := range envelopes {
		c.followers[i] = -1
		key := aggregate{e.AggregateType, e.AggregateID}
		if err := noPlace[key]; err != nil {
			c.results[i] = heldBack(err)
			continue
		}
		stream, subject, err := c.publisher.place(e)
		if err != nil {
			c.results[i] = err
			if !c.publisher.cfg.Unordered {
				noPlace[key] = err
			}
			continue
		}
		m, err := encode(subject, e)
		if err != nil {
			c.results[i] = outbox.PublishRejected(err)
			continue
		}
		m.Header[nats.MsgIdHdr] = []string{e.ID.String()}
		m.Header[nats.ExpectedStreamHdr] = []string{stream}
		c.messages[i] = m
		if previous, ok := last[key]; ok && !c.publisher.cfg.Unordered {
			c.followers[previous] = i
		} else {
			c.ready = append(c.ready, i)
		}
		last[key] = i
	}
}

// stream is the one that a message is for.
func (c *call) stream(i int) string { return c.messages[i].Header[nats.ExpectedStreamHdr][0] }

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
	case c.stop[c.stream(i)] != nil:
		c.settle(i, heldBack(c.stop[c.stream(i)]))
		return false
	case c.ctx.Err() != nil:
		c.settle(i, notSent(c.ctx))
		return false
	case c.publisher.conn.Status() != nats.CONNECTED:
		c.settle(i, outbox.PublishUnavailable(fmt.Errorf("not sent: connection is %s", c.publisher.conn.Status())))
		return false
	}
	ack, err := c.publisher.publish(c.messages[i])
	if err != nil {
		c.settle(i, err)
		return false
	}
	_ = fault.At(c.ctx, fault.RelaySent)
	c.flight = append(c.flight, inFlight{index: i, ack: ack})
	return true
}

func (c *call) settleOldest() {
	oldest := c.flight[0]
	c.flight = c.flight[1:]
	select {
	case ack := <-oldest.ack.Ok():
		c.settle(oldest.index, checkAck(c.stream(oldest.index), ack))
	case err := <-oldest.ack.Err():
		c.settle(oldest.index, ackError(c.stream(oldest.index), err))
	case <-c.ctx.Done():
		c.settle(oldest.index, c.lastLook(oldest))
	}
	<-c.publisher.window
}

// lastLook returns the outcome of a message at the end of ctx: an
// acknowledgement that is there counts.
func (c *call) lastLook(f inFlight) error {
	select {
	case ack := <-f.ack.Ok():
		return checkAck(c.stream(f.index), ack)
	case err := <-f.ack.Err():
		return ackError(c.stream(f.index), err)
	default:
		return unconfirmed(c.ctx)
	}
}

// checkAck accepts an acknowledgement, also one that says the stream had the
// event already: that is what a repeat after a lost acknowledgement gets.
func checkAck(want string, ack *jetstream.PubAck) error {
	if ack.Stream != want {
		return outbox.PublishUnavailable(fmt.Errorf("%w: %q acknowledged, want %q", ErrWrongStream, ack.Stream, want))
	}
	return nil
}

// settle records a message's outcome and what follows from it for the others.
func (c *call) settle(i int, err error) {
	c.results[i] = err
	follower := c.followers[i]
	if err != nil && outbox.FailureKindOf(err) != outbox.FailureRejected { // a rejected one is dead and out of the way
		for ; follower >= 0; follower = c.followers[follower] {
			c.results[follower] = heldBack(err)
		}
		c.stopStream(c.stream(i), err)
	}
	if follower >= 0 {
		c.ready = append(c.ready, follower)
	}
}

// stopStream sends nothing more to a stream after an error that shows that it, or
// the broker, takes nothing.
func (c *call) stopStream(stream string, err error) {
	kind := outbox.FailureKindOf(err)
	if kind != outbox.FailureUnavailable && kind != outbox.FailureUnknown || c.stop[stream] != nil {
		return
	}
	if c.stop == nil {
		c.stop = make(map[string]error)
	}
	c.stop[stream] = err
}

// refuseReady settles everything that waits to be sent, when nothing is in flight.
func (c *call) refuseReady(err error) {
	for len(c.ready) > 0 {
		i := c.ready[0]
		c.ready = c.ready[1:]
		c.settle(i, err)
	}
}
