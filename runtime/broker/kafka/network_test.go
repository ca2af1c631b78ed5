package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// network carries the connections of a client, and breaks them when a test says so.
type network struct {
	mu    sync.Mutex
	conns map[*conn]struct{}
	mute  bool       // what the brokers answer to produce requests is dropped
	down  bool       // nothing can be dialled
	hold  bool       // produce requests wait before they are written
	moved *sync.Cond // hold, or a connection's closed
}

func newNetwork() *network {
	n := &network{conns: make(map[*conn]struct{})}
	n.moved = sync.NewCond(&n.mu)
	return n
}

// setHold keeps produce requests back, or lets go those whose connection is still open.
func (n *network) setHold(hold bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hold = hold
	n.moved.Broadcast()
}

var errNetworkDown = errors.New("the test's network is down")

func (n *network) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	n.mu.Lock()
	down := n.down
	n.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errNetworkDown}
	}
	inner, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, network: n}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns[c] = struct{}{}
	return c, nil
}

// cut ends every connection.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		_ = c.Conn.Close()
	}
}

func (n *network) setMute(mute bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mute = mute
}

func (n *network) setDown(down bool) {
	n.mu.Lock()
	n.down = down
	n.mu.Unlock()
	if down {
		n.cut()
	}
}

// conn is one connection. franz-go has one of its own for produce requests, and
// writes a request at a time.
type conn struct {
	net.Conn
	network  *network
	produces atomic.Bool
	closed   bool // under network.mu
}

func (c *conn) Write(b []byte) (int, error) {
	if len(b) > 6 && int16(binary.BigEndian.Uint16(b[4:])) == int16(kmsg.Produce) { //nolint:gosec // a key
		c.produces.Store(true)
		c.network.mu.Lock()
		for c.network.hold && !c.closed {
			c.network.moved.Wait()
		}
		c.network.mu.Unlock()
	}
	return c.Conn.Write(b)
}

func (c *conn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		c.network.mu.Lock()
		mute := c.network.mute && c.produces.Load()
		c.network.mu.Unlock()
		if err != nil || !mute {
			return n, err
		}
	}
}

func (c *conn) Close() error {
	c.network.mu.Lock()
	delete(c.network.conns, c)
	c.closed = true
	c.network.moved.Broadcast()
	c.network.mu.Unlock()
	return c.Conn.Close()
}
