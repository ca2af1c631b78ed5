package main

import (
	"context"
	"net"
	"sync"
)

// proxy stands between the relays and a broker's servers.
type proxy struct {
	changed notice
	running sync.WaitGroup

	mu        sync.Mutex
	listeners map[string]net.Listener
	links     map[*link]struct{}
	held      bool // what the servers say is kept back
	down      bool // no connection is taken
}

// link is one client's connection.
type link struct {
	client, server net.Conn
	asked          int  // bytes from the client since hold
	answered       bool // the server has said something that is kept back
	kept           []byte
	ended          bool
}

func newProxy() *proxy {
	return &proxy{listeners: make(map[string]net.Listener), links: make(map[*link]struct{})}
}

// addr returns where to reach the server of an address through the proxy.
func (p *proxy) addr(target string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.listeners[target]
	if l == nil {
		var err error
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return "", err
		}
		p.listeners[target] = l
		p.running.Go(func() { p.accept(l, target) })
	}
	return l.Addr().String(), nil
}

// dial dials a server through the proxy.
func (p *proxy) dial(ctx context.Context, network, target string) (net.Conn, error) {
	addr, err := p.addr(target)
	if err != nil {
		return nil, err
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// hold keeps back what a server says on a connection with an event until release or cut.
// Other connections work, so that a client can make one anew.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = true
	for l := range p.links {
		l.asked, l.answered = 0, false
	}
}

// leastMessage is more than clients send to make a connection or to look for something, and
// less than two events take on the wire, in bytes.
const leastMessage = 600

// awaitHeld returns when a server has answered, since hold, on a connection with an event.
func (p *proxy) awaitHeld(ctx context.Context) error {
	return p.changed.await(ctx, "a confirm that is held back", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for l := range p.links {
			if l.answered {
				return true
			}
		}
		return false
	})
}

// release passes on what was held back.
func (p *proxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
	for l := range p.links {
		if _, err := l.client.Write(l.kept); err != nil {
			p.end(l)
		}
		l.kept = nil
	}
}

// cut breaks every connection, and takes no new one until up when it is to stay down.
// What was held back is lost.
func (p *proxy) cut(stayDown bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = stayDown
	for l := range p.links {
		p.end(l)
	}
	p.held = false
}

// serversDown counts the servers that take no connection.
func (p *proxy) serversDown() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for target := range p.listeners {
		conn, err := net.Dial("tcp", target)
		if err != nil {
			n++
			continue
		}
		_ = conn.Close()
	}
	return n
}

func (p *proxy) up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// end is called with mu held.
func (p *proxy) end(l *link) {
	l.ended = true
	delete(p.links, l)
	_ = l.client.Close()
	_ = l.server.Close()
}

func (p *proxy) close() {
	p.cut(true)
	p.mu.Lock()
	for _, l := range p.listeners {
		_ = l.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

func (p *proxy) accept(listener net.Listener, target string) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() {
			server, err := net.Dial("tcp", target)
			if err != nil { // the server is down
				_ = client.Close()
				return
			}
			p.serve(&link{client: client, server: server})
		})
	}
}

func (p *proxy) serve(l *link) {
	p.mu.Lock()
	p.links[l] = struct{}{}
	if p.down {
		p.end(l)
	}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pass(l, l.client, l.server, p.noteAsked) })
	both.Go(func() { p.pass(l, l.server, l.client, p.keepBack) })
	both.Wait()
}

// pass copies one direction. keep is called with mu held, and reports whether the bytes are
// not to be passed on now.
func (p *proxy) pass(l *link, from, to net.Conn, keep func(l *link, b []byte) bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		kept := keep(l, buf[:n])
		if err != nil || l.ended {
			p.end(l)
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		if kept {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			p.mu.Lock()
			p.end(l)
			p.mu.Unlock()
			return
		}
	}
}

func (p *proxy) noteAsked(l *link, b []byte) bool {
	l.asked += len(b)
	return false
}

func (p *proxy) keepBack(l *link, b []byte) bool {
	if !p.held || l.asked < leastMessage {
		return false
	}
	if len(b) > 0 {
		l.kept = append(l.kept, b...)
		l.answered = true
		p.changed.tell()
	}
	return true
}
