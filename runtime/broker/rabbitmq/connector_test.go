package rabbitmq

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// The client library's recovery numbers confirms anew under messages of the old connection.
func TestNoRecovery(t *testing.T) {
	t.Parallel()
	c := Connector{Config: amqp.Config{Recovery: new(amqp.Recovery)}}
	if c.fresh().Recovery != nil {
		t.Error("the client library's recovery is on")
	}
}

// A server that takes the connection and says nothing is waited for until DialTimeout, or until
// ctx ends.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c := Connector{URLs: []string{"amqp://guest:guest@" + listener.Addr().String() + "/"}, DialTimeout: 100 * time.Millisecond}
	done := make(chan error, 1)
	dial := func(ctx context.Context) {
		_, err := c.withDefaults().dial(ctx)
		done <- err
	}
	go dial(t.Context())
	wantIs(t, receive(t, "connecting is given up", done), context.DeadlineExceeded)

	c.DialTimeout = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	if conn, err := listener.Accept(); err != nil { // the first one's
		t.Fatal(err)
	} else {
		defer conn.Close()
	}
	go dial(ctx)
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err != nil { // the client has begun the handshake
		t.Fatal(err)
	}
	cancel()
	wantIs(t, receive(t, "connecting ends with its context", done), context.Canceled)
}

// Attempts to connect grow apart, however often something is published.
func TestConnectingBacksOff(t *testing.T) {
	t.Parallel()
	var dials atomic.Int64
	c := Connector{URLs: []string{"amqp://guest:guest@127.0.0.1:1/"}}
	c.Config.Dial = func(string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, errors.New("scripted")
	}
	p, err := NewPublisher(c, PublisherConfig{Exchange: "x", Backoff: time.Hour, MaxBackoff: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 20 {
		wantKind(t, publishOne(t, p, brokersuite.Event("a", 1)), outbox.FailureUnavailable)
	}
	if n := dials.Load(); n != 2 { // the second one at once: the first may have been of a link that had worked
		t.Errorf("%d attempts, want 2", n)
	}
}

// lateConn returns from a write when what it has written is answered.
type lateConn struct {
	net.Conn
	answered atomic.Pointer[func()] // waits
}

func (c *lateConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if wait := c.answered.Load(); wait != nil {
		(*wait)()
	}
	return n, err
}

// A confirm that comes before the write has returned is of the message that is written.
func TestConfirmBeforeTheWriteReturns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	late := new(lateConn)
	c := r.connector()
	c.Config.Dial = func(network, addr string) (conn net.Conn, err error) {
		late.Conn, err = net.Dial(network, addr)
		return late, err
	}
	p, err := NewPublisher(c, PublisherConfig{Topology: r.topology, AckTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := publishOne(t, p, brokersuite.Event("a", 1)); err != nil {
		t.Fatal(err)
	}
	l := p.sender.link
	before := l.progress.Load()
	wait := func() {
		deadline := time.Now().Add(5 * time.Second)
		sending := l.progress.Load() // when nothing was pending, sending counts as progress
		for l.progress.Load() == sending && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
	}
	late.answered.Store(&wait)
	err = publishOne(t, p, brokersuite.Event("a", 2))
	late.answered.Store(nil)
	if err != nil || l.progress.Load() == before {
		t.Errorf("%v", err)
	}
}
