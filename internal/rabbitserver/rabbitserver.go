// Package rabbitserver runs a private RabbitMQ server, for tests and for the demo.
//
// The server is looked for on the machine first, where Debian's package puts it, then in
// the cache folder; on Debian and Ubuntu it is otherwise downloaded with apt and unpacked
// there, and nothing gets installed. It runs with ports, a node folder and a cookie of
// its own, without epmd, and dies with the process that started it.
package rabbitserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/outboxgen/outboxgen/internal/throwaway"
)

// EnvVar names the environment variable with the URL of a server to use instead of a
// private one, such as amqp://guest:guest@127.0.0.1:5672/. What only a private one
// can do, such as dying, fails with it.
const EnvVar = "OUTBOXGEN_RABBITMQ_URL"

// Config has a server's settings. The zero value is good.
type Config struct {
	// Dir is the server's folder. Defaults to a new temporary one, which Close removes.
	Dir string

	// Port on 127.0.0.1. Defaults to a free one, which is kept through restarts.
	Port int

	// Progress gets a plain line for each slow step. Defaults to none.
	Progress func(string)
}

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 20 * time.Second

	// memoryLimit is far above what tests need, in bytes.
	memoryLimit = 2 << 30
)

// Server is a RabbitMQ server on 127.0.0.1. Its methods may be called from any goroutine.
type Server struct {
	url     string // set when it is somebody else's
	cfg     Config
	ownsDir bool
	install install
	control int // the port of Erlang's distribution

	mu   sync.Mutex
	proc *throwaway.Process
}

// Start starts a server and returns when it takes connections. Close it. With
// OUTBOXGEN_RABBITMQ_URL it starts nothing.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if url := os.Getenv(EnvVar); url != "" {
		return &Server{url: url}, nil
	}
	inst, err := find(ctx, cfg.Progress)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, install: inst}
	if err := s.prepare(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) prepare(ctx context.Context) (err error) {
	if s.cfg.Dir == "" {
		if s.cfg.Dir, err = os.MkdirTemp("", "outboxgen-rabbitmq-"); err != nil {
			return err
		}
		s.ownsDir = true
	}
	if s.cfg.Port == 0 {
		if s.cfg.Port, err = throwaway.FreePort(); err != nil {
			return err
		}
	}
	if s.control, err = throwaway.FreePort(); err != nil {
		return err
	}
	if err := s.writeFiles(); err != nil {
		return err
	}
	return s.Restart(ctx)
}

// TB is the part of testing.TB that StartT uses.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// StartT starts a server for one test and closes it when the test ends.
func StartT(t TB, cfg Config) *Server {
	t.Helper()
	s, err := Start(context.Background(), cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// URL is the address to connect to; it stays the same through restarts.
func (s *Server) URL() string {
	if s.url != "" {
		return s.url
	}
	return "amqp://guest:guest@" + s.Addr() + "/"
}

// Addr is the private server's host and port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.cfg.Port)) }

// Private reports whether the server is ours to kill and to question.
func (s *Server) Private() bool { return s.url == "" }

func (s *Server) checkPrivate() error {
	if s.Private() {
		return nil
	}
	return fmt.Errorf("this needs a private server: unset %s", EnvVar)
}

// Stop ends the server as an operator does. Its data stay.
func (s *Server) Stop() error {
	if err := s.checkPrivate(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.Stop(stopTimeout)
	}
	return nil
}

// Kill ends the server as kill -9 does. Its data stay as they are.
func (s *Server) Kill() error {
	if err := s.checkPrivate(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.Kill()
	}
	return nil
}

// Restart starts the server again on the same data and ports, after a Stop or a Kill or,
// if it still runs, after a Stop.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	proc, err := s.launch()
	if err != nil {
		return fmt.Errorf("start rabbitmq: %w", err)
	}
	s.proc = proc
	if err := s.waitReady(ctx); err != nil {
		s.proc.Kill()
		return fmt.Errorf("start rabbitmq: %w\nend of its output:\n%s", err, s.output())
	}
	return nil
}

// waitReady returns when our own server has booted.
func (s *Server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("it did not boot within %v", startTimeout))
	defer cancel()
	for {
		// Only our node knows our cookie; rabbit:is_running() is true before the listeners are there.
		out, err := s.Eval(ctx, `{rabbit:is_running(), rabbit_networking:active_listeners() =/= []}.`)
		if err == nil && strings.ReplaceAll(out, " ", "") == "{true,true}" {
			return nil
		}
		select {
		case <-s.proc.Done():
			return fmt.Errorf("it ended at once: %w", s.proc.Err())
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// output is the end of what the server has printed, for messages to people.
func (s *Server) output() string {
	text, err := os.ReadFile(filepath.Join(s.cfg.Dir, "output.log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// MemoryAlarm raises the memory alarm, as a server does that has too little, or ends it.
func (s *Server) MemoryAlarm(ctx context.Context, on bool) error {
	limit := memoryLimit
	if on {
		limit = 1
	}
	_, err := s.Eval(ctx, fmt.Sprintf(`vm_memory_monitor:set_vm_memory_high_watermark({absolute, %d}).`, limit))
	return err
}

// Close stops the server and removes its folder if Start made it.
func (s *Server) Close() {
	if !s.Private() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.Kill() // nobody needs its data any more
	}
	if s.ownsDir {
		_ = os.RemoveAll(s.cfg.Dir) // a folder below the system's own temporary one
	}
}
