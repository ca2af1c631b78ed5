package natsjs

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// proxy stands between clients and a server. It reads what the clients send as the
// NATS protocol, so that a test can drop single messages.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	mute  bool                                   // drop what the server sends
	drop  func(subject string, body []byte) bool // drop this one from a client
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
		delete(p.conns, client)
		delete(p.conns, server)
		p.mu.Unlock()
	}()
	var both sync.WaitGroup
	both.Go(func() {
		defer client.Close()
		_, _ = io.Copy(writerFunc(func(b []byte) (int, error) {
			p.mu.Lock()
			mute := p.mute
			p.mu.Unlock()
			if mute {
				return len(b), nil
			}
			return client.Write(b)
		}), server)
	})
	both.Go(func() {
		defer server.Close()
		p.forward(client, server)
	})
	both.Wait()
}

// forward passes on the client's protocol lines and messages.
func (p *proxy) forward(client io.Reader, server io.Writer) {
	in := bufio.NewReader(client)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		frame, subject, body := line, "", []byte(nil)
		if fields := strings.Fields(string(line)); len(fields) > 2 && (fields[0] == "PUB" || fields[0] == "HPUB") {
			size, err := strconv.Atoi(fields[len(fields)-1])
			if err != nil {
				return
			}
			payload := make([]byte, size+2)
			if _, err := io.ReadFull(in, payload); err != nil {
				return
			}
			frame = append(bytes.Clone(line), payload...)
			subject, body = fields[1], payload[:size]
		}
		p.mu.Lock()
		drop := subject != "" && p.drop != nil && p.drop(subject, body)
		p.mu.Unlock()
		if drop {
			continue
		}
		if _, err := server.Write(frame); err != nil {
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

// muteServer drops what the server sends, or stops doing so.
func (p *proxy) muteServer(mute bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = mute
}

// dropIf drops the messages from clients for which f holds; f sees one at a time.
func (p *proxy) dropIf(f func(subject string, body []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop = f
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
