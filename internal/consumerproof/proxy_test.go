package consumerproof

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/google/uuid"
)

// tap reads one connection's protocol, a frame at a time. Each direction has a
// goroutine of its own.
type tap interface {
	// fromClient returns the next frame, and the events whose deliveries it acknowledges.
	fromClient(in *bufio.Reader) (frame []byte, acked []uuid.UUID, err error)
	fromServer(in *bufio.Reader) (frame []byte, err error)
}

// errProtocol is wrapped by what a tap says about a frame that should not be.
var errProtocol = errors.New("on the wire")

// proxy stands between clients and a server.
type proxy struct {
	listener net.Listener
	target   string
	newTap   func() tap                   // nil to pass bytes on as they come
	acked    func(deliveries []uuid.UUID) // called before the frame is passed on

	mu    sync.Mutex
	wrong []error // of errProtocol
	conns map[net.Conn]struct{}
}

func startProxy(t *testing.T, target string, newTap func() tap, acked func([]uuid.UUID)) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: target, newTap: newTap, acked: acked, conns: make(map[net.Conn]struct{})}
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
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, client)
		delete(p.conns, server)
	}()
	toServer, toClient := chunks(client), chunks(server)
	if p.newTap != nil {
		t := p.newTap()
		clientIn, serverIn := bufio.NewReader(client), bufio.NewReader(server)
		toServer = func() ([]byte, error) {
			frame, acked, err := t.fromClient(clientIn)
			if err == nil && len(acked) > 0 {
				p.acked(acked)
			}
			return frame, err
		}
		toClient = func() ([]byte, error) { return t.fromServer(serverIn) }
	}
	var both sync.WaitGroup
	both.Go(func() { p.pass(toServer, server); _ = server.Close() })
	both.Go(func() { p.pass(toClient, client); _ = client.Close() })
	both.Wait()
}

// chunks reads whatever comes.
func chunks(from net.Conn) func() ([]byte, error) {
	buf := make([]byte, 32<<10)
	return func() ([]byte, error) {
		n, err := from.Read(buf)
		return buf[:n], err
	}
}

func (p *proxy) pass(next func() ([]byte, error), to net.Conn) {
	for {
		frame, err := next()
		p.mu.Lock()
		if errors.Is(err, errProtocol) {
			p.wrong = append(p.wrong, err)
		}
		p.mu.Unlock()
		if err != nil {
			return
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
	}
}

// check fails the test when something was seen that should not be.
func (p *proxy) check(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, err := range p.wrong {
		t.Error(err)
	}
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}
