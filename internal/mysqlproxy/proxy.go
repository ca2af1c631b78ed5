// Package mysqlproxy is a proxy between a driver and a server, for tests: it
// understands MySQL's packets well enough to break a connection exactly before
// or after the reply to a statement. It sees statements that the driver sends as
// text (COM_QUERY); TLS and compression must be off.
package mysqlproxy

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Action is what the proxy does at a statement.
type Action int

// The actions.
const (
	// CutRequest breaks both connections before the server sees the statement.
	CutRequest Action = iota
	// CutReply lets the server run the statement, waits for its reply, and
	// breaks the client's connection without passing it on.
	CutReply
	// HoldRequest breaks the client's connection at once and hands the statement
	// to the server only when the test says so: a zombie.
	HoldRequest
	// Stall lets nobody notice: the statement waits until the test says so, and is
	// answered as ever. The client, or its whole process, seems to stand still with
	// its transaction open.
	Stall
)

// Fault is an action that happens once, at the first statement that matches.
type Fault struct {
	action Action
	match  func(statement string) bool
	commit bool // the fault happens at the COMMIT of the transaction with a statement that matches

	// Hit is closed when the statement came by.
	Hit chan struct{}
	// Done is closed when the server has answered it; of CutReply and HoldRequest.
	Done chan struct{}
	// Forward, when closed by the test, lets HoldRequest and Stall go on.
	Forward chan struct{}
	// Drop, when closed by the test, lets Stall end in a CutRequest.
	Drop chan struct{}
}

// Proxy passes connections on to a server.
type Proxy struct {
	target   string
	listener net.Listener
	stopped  chan struct{}

	mu     sync.Mutex
	seen   []string
	faults []*Fault
	conns  map[net.Conn]bool
	wg     sync.WaitGroup
}

// Start starts a proxy to target, an address of the form host:port, and stops it
// when the test ends.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: target, listener: listener, stopped: make(chan struct{}), conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(p.stop)
	return p
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// At arms a fault for the next statement that match accepts.
func (p *Proxy) At(action Action, match func(statement string) bool) *Fault {
	return p.arm(action, match, false)
}

// AtCommit arms a fault for the COMMIT of the next transaction that has sent a
// statement that match accepts.
func (p *Proxy) AtCommit(action Action, match func(statement string) bool) *Fault {
	return p.arm(action, match, true)
}

func (p *Proxy) arm(action Action, match func(statement string) bool, commit bool) *Fault {
	f := &Fault{
		action: action, match: match, commit: commit,
		Hit: make(chan struct{}), Done: make(chan struct{}), Forward: make(chan struct{}), Drop: make(chan struct{}),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f)
	return f
}

// Disarm takes a fault back that has not happened.
func (p *Proxy) Disarm(f *Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = slices.DeleteFunc(p.faults, func(armed *Fault) bool { return armed == f })
}

// Nth matches the nth statement, from 1 on.
func Nth(n int) func(string) bool {
	return func(string) bool { n--; return n == 0 }
}

// Is matches a statement by its whole text.
func Is(text string) func(string) bool { return func(s string) bool { return s == text } }

// Has matches a statement by a part of its text.
func Has(text string) func(string) bool {
	return func(s string) bool { return strings.Contains(s, text) }
}

// Statements returns what came by so far, in its order.
func (p *Proxy) Statements() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.seen)
}

func (l *link) take(statement string) *Fault {
	if strings.HasPrefix(statement, "START TRANSACTION") {
		l.sent = nil
	}
	l.sent = append(l.sent, statement)
	p := l.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, statement)
	for i, f := range p.faults {
		hit := !f.commit && f.match(statement) || f.commit && statement == "COMMIT" && slices.ContainsFunc(l.sent, f.match)
		if hit {
			p.faults = append(p.faults[:i:i], p.faults[i+1:]...)
			close(f.Hit)
			return f
		}
	}
	return nil
}

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

func (p *Proxy) stop() {
	_ = p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	close(p.stopped)
	p.wg.Wait()
}

// link is one client's connection.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	sent           []string // since the last START TRANSACTION

	mu    sync.Mutex
	fault *Fault // whose reply must not reach the client
}

const comQuery = 0x03

// toServer passes packets of the client on.
func (l *link) toServer() {
	keepServer := false
	defer func() {
		_ = l.client.Close()
		if !keepServer {
			_ = l.server.Close()
		}
	}()
	in := bufio.NewReader(l.client)
	for {
		packet, err := readPacket(in)
		if err != nil {
			return
		}
		if len(packet) > 5 && packet[3] == 0 && packet[4] == comQuery {
			if f := l.take(string(packet[5:])); f != nil {
				switch f.action {
				case CutRequest:
					return
				case CutReply:
					l.setFault(f)
				case HoldRequest:
					l.setFault(f)
					_ = l.client.Close()
					select {
					case <-f.Forward:
					case <-l.proxy.stopped:
						return
					}
					keepServer = true // until it has answered; toClient closes it
					_, _ = l.server.Write(packet)
					return
				case Stall:
					select {
					case <-f.Forward:
					case <-f.Drop:
						return
					case <-l.proxy.stopped:
						return
					}
				}
			}
		}
		if _, err := l.server.Write(packet); err != nil {
			return
		}
	}
}

// toClient passes the server's packets back.
func (l *link) toClient() {
	defer func() {
		_ = l.client.Close()
		_ = l.server.Close()
	}()
	in := bufio.NewReader(l.server)
	for {
		packet, err := readPacket(in)
		if err != nil {
			return
		}
		if f := l.getFault(); f != nil {
			close(f.Done)
			return
		}
		if _, err := l.client.Write(packet); err != nil && l.getFault() == nil {
			return
		}
	}
}

func (l *link) setFault(f *Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = f
}

func (l *link) getFault() *Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault
}

// readPacket returns a packet with its header: three bytes of length and one of
// sequence.
func readPacket(in io.Reader) ([]byte, error) {
	var header [4]byte
	if _, err := io.ReadFull(in, header[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32([]byte{header[0], header[1], header[2], 0})
	packet := make([]byte, 4+size)
	copy(packet, header[:])
	_, err := io.ReadFull(in, packet[4:])
	return packet, err
}
