package verify

import (
	"net"
	"sync"
)

// wire is a proxy in front of a broker. It knows nothing of what it passes on.
type wire struct {
	target   string
	listener net.Listener
	wg       sync.WaitGroup

	mu        sync.Mutex
	conns     map[net.Conn]bool // nil when it is closed
	swallowed int               // bytes
	swallow   direction
	held      direction
	released  chan struct{} // closed when nothing is held any more
}

type direction int

const (
	nothing direction = iota
	requests
	replies
)

func newWire(target string) (*wire, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &wire{target: target, listener: listener, conns: map[net.Conn]bool{}}
	w.wg.Go(w.accept)
	return w, nil
}

func (w *wire) addr() string { return w.listener.Addr().String() }

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", w.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		w.mu.Lock()
		if w.conns == nil {
			w.mu.Unlock()
			closeBoth(client, server)
			return
		}
		w.conns[client], w.conns[server] = true, true
		w.mu.Unlock()
		w.wg.Go(func() { w.pass(server, client, requests) })
		w.wg.Go(func() { w.pass(client, server, replies) })
	}
}

func (w *wire) pass(to, from net.Conn, d direction) {
	defer closeBoth(to, from)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		w.whileHeld(d)
		if n > 0 && !w.swallows(d, n) {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func closeBoth(a, b net.Conn) {
	_ = a.Close()
	_ = b.Close()
}

func (w *wire) swallows(d direction, n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.swallow != d {
		return false
	}
	w.swallowed += n
	return true
}

// lose lets what comes in a direction disappear, until cut.
func (w *wire) lose(d direction) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.swallow, w.swallowed = d, 0
}

// lost is how many bytes have disappeared.
func (w *wire) lost() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.swallowed
}

// hold keeps back what comes in a direction, until release.
func (w *wire) hold(d direction) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held, w.released = d, make(chan struct{})
}

func (w *wire) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held != nothing {
		w.held = nothing
		close(w.released)
	}
}

func (w *wire) whileHeld(d direction) {
	w.mu.Lock()
	held, released := w.held == d, w.released
	w.mu.Unlock()
	if held {
		<-released
	}
}

// cut ends all connections; new ones are passed on.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.swallow = nothing
	for c := range w.conns {
		_ = c.Close()
		delete(w.conns, c)
	}
}

func (w *wire) close() {
	_ = w.listener.Close()
	w.release()
	w.mu.Lock()
	for c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
	w.mu.Unlock()
	w.wg.Wait()
}
