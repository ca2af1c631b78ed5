package rabbitmq

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// link is one connection with one channel in confirm mode. Confirms carry delivery tags,
// which begin at 1 on every channel: a link keeps its own messages, and none of another
// link can be settled by its confirms.
type link struct {
	conn    *connection
	channel *amqp.Channel
	timeout time.Duration // of what is asked of the broker
	stall   func()        // for tests: called before the dispatcher looks at anything

	blocked  atomic.Bool
	progress atomic.Int64 // when the broker last confirmed something, or was idle; Unix nanoseconds

	sending chan struct{} // one token, held while a message is written: tags are in the order of sending

	mu        sync.Mutex
	pending   map[uint64]*sent
	dead      bool
	cause     error
	exchanges map[string]bool // known to exist

	confirms <-chan amqp.Confirmation
	returns  <-chan amqp.Return
	closed   <-chan *amqp.Error
	ended    chan struct{} // closed when everything is settled after the channel's end
}

// sent is a message that the broker has not yet confirmed.
type sent struct {
	tag      uint64
	exchange string
	key      string
	id       string // message id
	size     int    // of its body, in bytes
	returned *amqp.Return
	settled  func() // called once, when err stands
	at       time.Time
	done     chan struct{}
	err      error // the outcome; read only after done
}

// newLink opens the channel. window is how many messages may be unconfirmed: the buffers
// for what the broker says hold as many, for the client library throws away what it
// can't hand over within five seconds.
func newLink(conn *connection, window int, timeout time.Duration, stall func()) (*link, error) {
	channel, err := conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	l := &link{
		conn: conn, channel: channel, timeout: timeout, stall: stall,
		sending: make(chan struct{}, 1), pending: make(map[uint64]*sent), exchanges: map[string]bool{"": true}, // the default exchange is always there
		confirms: channel.NotifyPublish(make(chan amqp.Confirmation, window+1)),
		returns:  channel.NotifyReturn(make(chan amqp.Return, window+1)),
		closed:   channel.NotifyClose(make(chan *amqp.Error, 1)),
		ended:    make(chan struct{}),
	}
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 16))
	go func() { // ends with the connection
		for b := range blocked {
			l.blocked.Store(b.Active)
			l.progress.Store(time.Now().UnixNano())
		}
	}()
	go l.dispatch() // before the channel confirms anything
	if err := channel.Confirm(false); err != nil {
		conn.cut()
		<-l.ended
		return nil, fmt.Errorf("switch on publisher confirms: %w", err)
	}
	return l, nil
}

// alive reports whether messages can be sent.
func (l *link) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.dead && !l.channel.IsClosed()
}

// send writes a message. An error is the outcome; otherwise the message's done is
// closed when there is one. A write that is under way when ctx ends costs the link: it
// may be one that never ends.
func (l *link) send(ctx context.Context, exchange, key string, m amqp.Publishing, settled func()) (*sent, error) {
	select {
	case l.sending <- struct{}{}:
		defer func() { <-l.sending }()
	case <-ctx.Done():
		return nil, notSentError(context.Cause(ctx))
	}
	s := &sent{
		exchange: exchange, key: key, id: m.MessageId, size: len(m.Body),
		at: time.Now(), settled: settled, done: make(chan struct{}),
	}
	l.mu.Lock()
	switch {
	case l.dead || l.channel.IsClosed():
		l.mu.Unlock()
		return nil, notSentError(errNotConnected)
	case l.blocked.Load():
		l.mu.Unlock()
		return nil, notSentError(ErrBlocked)
	}
	// Noted before it is written: the confirm may come before the write has returned.
	s.tag = l.channel.GetNextPublishSeqNo()
	if len(l.pending) == 0 {
		l.progress.Store(s.at.UnixNano())
	}
	l.pending[s.tag] = s
	l.mu.Unlock()

	defer context.AfterFunc(ctx, func() { l.kill(context.Cause(ctx)) })()
	if err := l.channel.Publish(exchange, key, true, false, m); err != nil {
		// The broker may have the whole of it all the same. The library gives the tag to the next
		// message now, so that no confirm of this channel can be believed any more.
		l.kill(fmt.Errorf("write: %w", err))
	}
	return s, nil
}

// kill ends the link: what is unconfirmed becomes unknown.
func (l *link) kill(cause error) {
	l.mu.Lock()
	l.dead = true
	if l.cause == nil {
		l.cause = cause
	}
	l.mu.Unlock()
	l.conn.cut()
}

// dispatch settles what the broker says about messages, and in the end what it doesn't.
// One goroutine reads everything, in the order in which it counts: the broker returns an
// unroutable message before it confirms it.
func (l *link) dispatch() {
	defer close(l.ended)
	returns := l.returns
	for {
		select {
		case c, ok := <-l.confirms:
			if l.stall != nil {
				l.stall()
			}
			l.drainReturns()
			if !ok {
				l.settleRest()
				return
			}
			l.confirm(c)
		case r, ok := <-returns:
			if !ok {
				returns = nil
				continue
			}
			if l.stall != nil {
				l.stall()
			}
			l.noteReturn(r)
		}
	}
}

// drainReturns reads every return that came before the confirm at hand: the library's one
// reader has put them into the buffer before it.
func (l *link) drainReturns() {
	if len(l.returns) == cap(l.returns) {
		// There is room for more than may be in flight, so this can't be. Should it
		// be, a return may have been thrown away and no confirm can be believed.
		l.kill(errReturnsLost)
	}
	for {
		select {
		case r, ok := <-l.returns:
			if !ok {
				return
			}
			l.noteReturn(r)
		default:
			return
		}
	}
}

// noteReturn marks the message that was returned, the oldest where an event is on its way
// twice: returns and messages are in the same order.
func (l *link) noteReturn(r amqp.Return) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var oldest *sent
	for _, s := range l.pending {
		if s.id == r.MessageId && s.exchange == r.Exchange && s.key == r.RoutingKey && s.returned == nil &&
			(oldest == nil || s.tag < oldest.tag) {
			oldest = s
		}
	}
	if oldest != nil {
		oldest.returned = &r
	}
}

// confirm settles one message. After a kill nothing is believed any more.
func (l *link) confirm(c amqp.Confirmation) {
	l.progress.Store(time.Now().UnixNano())
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.pending[c.DeliveryTag]
	if !ok || l.dead {
		return
	}
	switch {
	case s.returned != nil:
		l.settle(s, returnedError(s))
	case !c.Ack:
		l.settle(s, nackedError(s))
	default:
		l.settle(s, nil)
	}
}

// settle is called with mu held.
func (l *link) settle(s *sent, err error) {
	delete(l.pending, s.tag)
	s.err = err
	close(s.done)
	s.settled()
}

// settleRest settles what the broker has said nothing about before the channel's end.
func (l *link) settleRest() {
	reason := <-l.closed // nil for an end that we wanted
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	if l.cause == nil && reason != nil {
		l.cause = reason
	}
	if l.cause == nil {
		l.cause = errClosed
	}
	verdict := judge(reason, l.pending)
	for _, s := range l.pending {
		if s.returned != nil {
			l.settle(s, returnedError(s))
			continue
		}
		l.settle(s, verdict(s, l.cause))
	}
	// What is left of it is of no use without the channel.
	go l.conn.end(time.Second)
}

// stalled reports whether the broker, not blocked, has confirmed nothing for as long as a
// confirm may take.
func (l *link) stalled() bool {
	return !l.blocked.Load() && time.Since(time.Unix(0, l.progress.Load())) >= l.timeout
}

// checkExchange asks the broker once whether the exchange is there. A message for one that
// isn't would end the channel, and with it leave its neighbours unknown.
func (l *link) checkExchange(ctx context.Context, name string) error {
	l.mu.Lock()
	known := l.exchanges[name]
	l.mu.Unlock()
	if known {
		return nil
	}
	result := make(chan error, 1)
	go func() { result <- l.findExchange(name) }()
	timer := time.NewTimer(l.timeout)
	defer timer.Stop()
	select {
	case err := <-result:
		if err != nil {
			return notSentError(err)
		}
	case <-ctx.Done():
		return notSentError(context.Cause(ctx))
	case <-timer.C:
		l.kill(errNoAnswer)
		return notSentError(errNoAnswer)
	}
	l.mu.Lock()
	l.exchanges[name] = true
	l.mu.Unlock()
	return nil
}

func (l *link) findExchange(name string) error {
	channel, err := l.conn.Channel()
	if err != nil {
		return err
	}
	if err := channel.ExchangeDeclarePassive(name, amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
		return exchangeError(name, err) // the broker has closed the channel
	}
	return channel.Close()
}
