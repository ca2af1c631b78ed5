package rabbitmq

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// sender keeps a link to send on, and a window over all of its links. It has no goroutine
// while it has no link: the next message that is to be sent opens a new one.
type sender struct {
	connector  Connector
	timeout    time.Duration // of a confirm
	backoff    time.Duration // before a second attempt to connect, doubled up to maxBackoff
	maxBackoff time.Duration
	window     chan struct{} // one token a message that is unconfirmed, also after its caller gave up
	stall      func()        // for tests

	mu       sync.Mutex
	link     *link
	dialing  chan struct{} // closed when the attempt that is under way has ended
	failures int           // to connect or to get a confirm, in a row
	next     time.Time     // no attempt before
	err      error         // why there is no link
	closed   bool
}

func newSender(c Connector, window int, timeout, backoff, maxBackoff time.Duration) *sender {
	return &sender{
		connector: c.withDefaults(), timeout: timeout, backoff: backoff, maxBackoff: maxBackoff,
		window: make(chan struct{}, window),
	}
}

// connected returns a link that is alive. It waits for an attempt to connect, not for the
// pause between two.
func (s *sender) connected(ctx context.Context) (*link, error) {
	if err := ctx.Err(); err != nil {
		return nil, notSentError(context.Cause(ctx))
	}
	s.mu.Lock()
	if s.link != nil && !s.link.alive() {
		s.lost()
	}
	switch {
	case s.closed:
		s.mu.Unlock()
		return nil, notSentError(errClosed)
	case s.link != nil:
		l := s.link
		s.mu.Unlock()
		return l, nil
	case s.dialing == nil && time.Now().Before(s.next):
		err := s.err
		s.mu.Unlock()
		return nil, notSentError(fmt.Errorf("%w: %w", errNotConnected, err))
	case s.dialing == nil:
		s.dialing = make(chan struct{})
		go s.dial(context.WithoutCancel(ctx), s.dialing) // for all who wait; DialTimeout ends it
	}
	dialing := s.dialing
	s.mu.Unlock()
	select {
	case <-dialing:
	case <-ctx.Done():
		return nil, notSentError(context.Cause(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == nil {
		return nil, notSentError(fmt.Errorf("%w: %w", errNotConnected, s.err))
	}
	return s.link, nil
}

// lost notes, with mu held, that the link has ended. One that had got a confirm is
// replaced at once.
func (s *sender) lost() {
	l := s.link
	s.link = nil
	l.mu.Lock()
	s.err = l.cause
	l.mu.Unlock()
	if s.err == nil {
		s.err = errNotConnected
	}
	s.pause()
}

// pause, with mu held, sets when to try next. It grows until a confirm comes.
func (s *sender) pause() {
	if s.failures > 0 {
		d := s.maxBackoff
		if n := s.failures - 1; n < 32 && s.backoff < s.maxBackoff>>n {
			d = s.backoff << n
		}
		s.next = time.Now().Add(time.Duration(float64(d) * (0.8 + 0.4*rand.Float64())))
	}
	s.failures++
}

func (s *sender) dial(ctx context.Context, done chan struct{}) {
	defer close(done)
	conn, err := s.connector.dial(ctx)
	var l *link
	if err == nil {
		l, err = newLink(conn, cap(s.window), s.timeout, s.stall)
		if err != nil {
			conn.cut()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialing = nil
	switch {
	case err != nil:
		s.err = err
		s.pause()
	case s.closed:
		s.err = errClosed
		l.kill(errClosed)
	default:
		s.link = l
	}
}

// send writes a message on the link. The caller has taken a place in the window; it is
// given back when the outcome stands.
func (s *sender) send(ctx context.Context, exchange, key string, m amqp.Publishing) (*link, *sent, error) {
	l, err := s.connected(ctx)
	if err == nil {
		err = l.checkExchange(ctx, exchange)
	}
	var out *sent
	if err == nil {
		out, err = l.send(ctx, exchange, key, m, func() { <-s.window })
	}
	if err != nil {
		<-s.window
		return nil, nil, err
	}
	return l, out, nil
}

// isBlocked reports whether the broker takes nothing at the moment.
func (s *sender) isBlocked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link != nil && s.link.alive() && s.link.blocked.Load()
}

// wait waits for a message's outcome, until the time for a confirm is over or ctx ends.
func (s *sender) wait(ctx context.Context, l *link, m *sent) error {
	timer := time.NewTimer(time.Until(m.at.Add(s.timeout)))
	defer timer.Stop()
	select {
	case <-m.done:
		s.settled(m)
		return m.err
	case <-ctx.Done():
	case <-timer.C:
		if l.stalled() {
			l.kill(errNoAnswer)
		}
	}
	select {
	case <-m.done: // an outcome that is there counts
		s.settled(m)
		return m.err
	default:
	}
	if ctx.Err() != nil {
		return ctxUnconfirmedError(ctx)
	}
	return unconfirmedError(fmt.Errorf("no confirm within %v", s.timeout))
}

func (s *sender) settled(m *sent) {
	if m.err == nil {
		s.mu.Lock()
		s.failures = 0
		s.mu.Unlock()
	}
}

// sendOne sends a message and waits for its outcome.
func (s *sender) sendOne(ctx context.Context, exchange, key string, m amqp.Publishing) error {
	select {
	case s.window <- struct{}{}:
	case <-ctx.Done():
		return notSentError(context.Cause(ctx))
	}
	l, out, err := s.send(ctx, exchange, key, m)
	if err != nil {
		return err
	}
	return s.wait(ctx, l, out)
}

// close ends the link. What waits for a confirm becomes unknown.
func (s *sender) close() {
	s.mu.Lock()
	s.closed = true
	l := s.link
	s.mu.Unlock()
	if l == nil {
		return
	}
	l.mu.Lock()
	if l.cause == nil {
		l.cause = errClosed
	}
	l.mu.Unlock()
	l.conn.end(5 * time.Second)
	<-l.ended
}
