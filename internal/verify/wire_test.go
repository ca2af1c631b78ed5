package verify

import (
	"io"
	"net"
	"testing"
	"time"
)

// TestWire loses what a client sends, cuts it off, and lets the next one through.
func TestWire(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn) }()
		}
	}()
	w, err := newWire(server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", w.addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	echo := func(conn net.Conn) error {
		if _, err := conn.Write([]byte("hello")); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, make([]byte, 5))
		return err
	}
	for _, d := range []direction{requests, replies} {
		conn := dial()
		w.hold(d)
		late := make(chan error, 1)
		go func() { late <- echo(conn) }()
		select {
		case err := <-late:
			t.Fatalf("what was held back came: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		w.release()
		if err := <-late; err != nil {
			t.Errorf("after the release: %v", err)
		}
		if err := echo(conn); err != nil {
			t.Fatalf("before anything happens: %v", err)
		}
		w.lose(d)
		done := make(chan error, 1)
		go func() { done <- echo(conn) }()
		for w.lost() < 5 {
			select {
			case err := <-done:
				t.Fatalf("what was to get lost came back: %v", err)
			default:
			}
		}
		w.cut()
		if err := <-done; err == nil {
			t.Error("the connection is not cut")
		}
		if err := echo(dial()); err != nil {
			t.Errorf("after the cut: %v", err)
		}
	}
}
