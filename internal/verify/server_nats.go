package verify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/throwaway"
	"github.com/outboxgen/outboxgen/runtime/broker/natsjs"
)

type natsServer struct {
	dir  string
	port int
	proc *process
	conn *nats.Conn
	js   jetstream.JetStream
}

func startNATS(ctx context.Context) (*natsServer, error) {
	dir, err := os.MkdirTemp("", "outboxgen-verify-nats-")
	if err != nil {
		return nil, err
	}
	s := &natsServer{dir: dir}
	if s.port, err = throwaway.FreePort(); err == nil {
		err = s.restart(ctx)
	}
	if err == nil {
		s.conn, err = nats.Connect("nats://"+s.addr(), natsjs.ConnOptions()...)
	}
	if err == nil {
		s.js, err = jetstream.New(s.conn)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *natsServer) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func (s *natsServer) version() string { return "NATS " + s.conn.ConnectedServerVersion() }

func (s *natsServer) ensure(ctx context.Context, p place) error {
	c, err := openNATS(p)
	if err != nil {
		return err
	}
	defer c.close()
	return c.ensure(ctx)
}

func (s *natsServer) messages(ctx context.Context, p place) ([]history.Message, error) {
	stream, err := s.js.Stream(ctx, p.Name)
	if err != nil {
		return nil, err
	}
	var all []history.Message
	state := stream.CachedInfo().State
	for sequence := state.FirstSeq; state.Msgs > 0 && sequence <= state.LastSeq; sequence++ {
		raw, err := stream.GetMsg(ctx, sequence)
		if err != nil {
			return nil, fmt.Errorf("read message %d: %w", sequence, err)
		}
		m, err := newMessage(func(name string) string { return raw.Header.Get("ce-" + name) }, raw.Data)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

func (s *natsServer) idle(ctx context.Context, p place) (bool, error) {
	c, err := s.js.Consumer(ctx, p.Name, natsjs.DurableName(p.topology().Consumers[0].Queue))
	if err != nil {
		return false, err
	}
	info := c.CachedInfo()
	return info.NumPending == 0 && info.NumAckPending == 0, nil
}

func (s *natsServer) remove(ctx context.Context, p place) error {
	return s.js.DeleteStream(ctx, p.Name)
}

func (s *natsServer) kill() error {
	s.proc.proc.Kill()
	return nil
}

func (s *natsServer) restart(ctx context.Context) error {
	proc, err := start("nats", orders{Role: roleNATS, Dir: s.dir, Port: s.port}, "", func(line) {})
	if err != nil {
		return err
	}
	s.proc = proc
	return proc.await(ctx, "ready", proc.ready, startBound)
}

func (s *natsServer) close() {
	if s.conn != nil {
		s.conn.Close()
	}
	var err error
	if s.proc != nil {
		err = s.proc.stop()
	}
	_ = errors.Join(err, os.RemoveAll(s.dir)) // nobody needs its data any more
}
