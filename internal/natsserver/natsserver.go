// Package natsserver runs a NATS server with JetStream inside the process, for
// tests and for the demo.
package natsserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Config has a server's settings. The zero value is good.
type Config struct {
	// Dir is where streams are stored. Defaults to a new temporary folder, which
	// Close removes.
	Dir string

	// Port on 127.0.0.1. Defaults to a free one, which is kept through restarts.
	Port int

	// SyncAlways flushes every message to the disk before it is acknowledged.
	// Defaults to false: the server flushes every two minutes, so an
	// acknowledged message survives the process but not the machine
	// (https://github.com/nats-io/nats-server/issues/7564).
	SyncAlways bool

	// MaxPayload is the largest message in bytes, headers included. Defaults to
	// the server's 1 MiB.
	MaxPayload int32
}

// startTimeout is how long a server may take until it accepts connections.
const startTimeout = 20 * time.Second

// Server is a NATS server on 127.0.0.1. Its methods may be called from any goroutine.
type Server struct {
	cfg     Config
	ownsDir bool

	mu     sync.Mutex
	server *server.Server // nil while stopped
}

// Start starts a server and returns once it takes connections. Close it.
func Start(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg}
	if s.cfg.Dir == "" {
		dir, err := os.MkdirTemp("", "outboxgen-nats-")
		if err != nil {
			return nil, fmt.Errorf("start nats: %w", err)
		}
		s.cfg.Dir, s.ownsDir = dir, true
	}
	if err := s.Restart(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// TB is the part of testing.TB that StartT uses.
type TB interface {
	Helper()
	Cleanup(func())
	TempDir() string
	Fatalf(format string, args ...any)
}

// StartT starts a server for one test and closes it when the test ends.
func StartT(t TB, cfg Config) *Server {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	s, err := Start(cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// URL is the address to connect to; it stays the same through restarts.
func (s *Server) URL() string { return "nats://" + s.Addr() }

// Addr is the server's host and port.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.cfg.Port))
}

// Stop cuts every connection and stops the server. Its streams stay in Dir. A
// server that runs in the process can't be killed as by SIGKILL: what it had
// acknowledged is always there after Restart. It does nothing to a server that
// is stopped.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

func (s *Server) stop() {
	if s.server == nil {
		return
	}
	s.server.Shutdown()
	s.server.WaitForShutdown()
	s.server = nil
}

// Restart stops the server if it runs and starts it on the same port and folder.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
	port := s.cfg.Port
	if port == 0 {
		port = server.RANDOM_PORT
	}
	srv, err := server.NewServer(&server.Options{
		Host:       "127.0.0.1",
		Port:       port,
		JetStream:  true,
		StoreDir:   s.cfg.Dir,
		SyncAlways: s.cfg.SyncAlways,
		MaxPayload: s.cfg.MaxPayload,
		NoLog:      true,
		NoSigs:     true,
	})
	if err != nil {
		return fmt.Errorf("start nats: %w", err)
	}
	go srv.Start()
	if !srv.ReadyForConnections(startTimeout) {
		srv.Shutdown()
		return errors.New("start nats: the server took no connection within " + startTimeout.String())
	}
	s.server = srv
	s.cfg.Port = srv.Addr().(*net.TCPAddr).Port
	return nil
}

// Close stops the server and removes its folder if Start made it.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
	if s.ownsDir {
		_ = os.RemoveAll(s.cfg.Dir) // a folder below the system's own temporary one
	}
}
