// Package mysqlproxy is a proxy between a driver and a server, for tests: it
// understands MySQL's packets well enough to break a connection exactly before
// or after the reply to a statement. It sees statements that the driver sends as
// text (COM_QUERY), and prepares (COM_STMT_PREPARE); TLS and compression must be off.
package mysqlproxy

import (
	"net"
	"slices"
	"sync"
)

// Proxy passes connections on to a server.
type Proxy struct {
	target   string
	listener net.Listener
	stopped  chan struct{}

	mu     sync.Mutex
	seen   []sent
	faults []*Fault
	conns  map[net.Conn]bool
	wg     sync.WaitGroup
}

// New starts a proxy to target, an address of the form host:port. Close it.
func New(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, listener: listener, stopped: make(chan struct{}), conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	return p, nil
}

// TB is the part of testing.TB that Start uses.
type TB interface {
	Helper()
	Cleanup(func())
	Fatal(args ...any)
}

// Start starts a proxy for one test and closes it when the test ends.
func Start(t TB, target string) *Proxy {
	t.Helper()
	p, err := New(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Statements returns what came by so far, in its order.
func (p *Proxy) Statements() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	texts := make([]string, len(p.seen))
	for i, s := range p.seen {
		texts[i] = s.statement
	}
	return texts
}

// sent is a statement on a connection.
type sent struct {
	link      *link
	statement string
}

// Following returns what the connection on which a statement came by that match accepts, the
// first such, sent after it up to the end of the transaction, without that end.
func (p *Proxy) Following(match func(statement string) bool) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := slices.IndexFunc(p.seen, func(s sent) bool { return match(s.statement) })
	if first < 0 {
		return nil
	}
	var following []string
	for _, s := range p.seen[first+1:] {
		switch {
		case s.link != p.seen[first].link:
		case ends(s.statement):
			return following
		default:
			following = append(following, s.statement)
		}
	}
	return following
}

func ends(statement string) bool { return statement == "COMMIT" || statement == "ROLLBACK" }

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.track(client, server) {
			return
		}
		link := &link{proxy: p, client: client, server: server}
		p.wg.Go(link.toServer)
		p.wg.Go(link.toClient)
	}
}

func (p *Proxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		for _, c := range conns {
			_ = c.Close()
		}
		return false
	}
	for _, c := range conns {
		p.conns[c] = true
	}
	return true
}

// Sever breaks all connections for ever: no new ones are taken.
func (p *Proxy) Sever() {
	_ = p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// Close ends the proxy and all connections through it.
func (p *Proxy) Close() {
	p.Sever()
	close(p.stopped)
	p.wg.Wait()
}
