package main

import (
	"bytes"
	"io"
	"net"
	"testing"
)

// echo starts a server that says what it is told.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
		}
	}()
	return listener.Addr().String()
}

// dialled returns a connection through the proxy that has been used.
func dialled(t *testing.T, p *proxy, target string) net.Conn {
	t.Helper()
	conn, err := p.dial(t.Context(), "tcp", target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	say(t, conn, 1)
	hear(t, conn, 1)
	return conn
}

func say(t *testing.T, conn net.Conn, n int) {
	t.Helper()
	if _, err := conn.Write(bytes.Repeat([]byte{'a'}, n)); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, conn net.Conn, n int) {
	t.Helper()
	if _, err := io.ReadFull(conn, make([]byte, n)); err != nil {
		t.Fatal(err)
	}
}

// A confirm is held back; what belongs to making a connection isn't.
func TestProxyHolds(t *testing.T) {
	p, target := newProxy(), echo(t)
	defer p.close()
	conn := dialled(t, p, target)
	p.hold()
	say(t, conn, 1)
	hear(t, conn, 1)
	dialled(t, p, target)
	say(t, conn, leastMessage)
	if err := p.awaitHeld(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.release()
	hear(t, conn, leastMessage)
}

func TestProxyCuts(t *testing.T) {
	p, target := newProxy(), echo(t)
	defer p.close()
	conn := dialled(t, p, target)
	p.hold()
	say(t, conn, leastMessage)
	if err := p.awaitHeld(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.cut(true)
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes came through", n)
	}
	other, err := p.dial(t.Context(), "tcp", target)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Read(make([]byte, 1)); err == nil {
		t.Error("a connection was taken while it is down")
	}
	p.up()
	dialled(t, p, target)
}
