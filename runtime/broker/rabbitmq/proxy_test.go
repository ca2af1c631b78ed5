package rabbitmq

import (
	"net"
	"sync"
	"testing"
)

// proxy stands between clients and the server.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	mute  bool          // drop what the server sends
	down  bool          // refuse connections
	stuck chan struct{} // not nil: read nothing from clients until it is closed
	wrote func(b []byte)
}

func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: target, conns: make(map[net.Conn]struct{})}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.unstick()
		p.cut()
		running.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	if p.down {
		p.mu.Unlock()
		return
	}
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, client)
		delete(p.conns, server)
		p.mu.Unlock()
	}()
	var both sync.WaitGroup
	both.Go(func() {
		defer client.Close()
		p.copy(client, server, func() bool { return p.mute })
	})
	both.Go(func() {
		defer server.Close()
		p.copy(server, client, func() bool {
			if stuck := p.stuck; stuck != nil {
				p.mu.Unlock()
				<-stuck
				p.mu.Lock()
			}
			return false
		})
	})
	both.Wait()
}

// copy passes on what drop, called with mu held, doesn't hold for.
func (p *proxy) copy(to, from net.Conn, drop func() bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		dropped := drop()
		wrote := p.wrote
		p.mu.Unlock()
		if dropped {
			continue
		}
		if wrote != nil && to.RemoteAddr().String() == p.target {
			wrote(buf[:n])
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// cut closes every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// takeDown cuts every connection and refuses new ones until bringUp.
func (p *proxy) takeDown() {
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	p.cut()
}

func (p *proxy) bringUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// muteServer drops what the server sends, or stops doing so.
func (p *proxy) muteServer(mute bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = mute
}

// stick stops reading from clients, as a server does that is out of memory.
func (p *proxy) stick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stuck = make(chan struct{})
}

func (p *proxy) unstick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stuck != nil {
		close(p.stuck)
		p.stuck = nil
	}
}
