package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/outboxgen/outboxgen/internal/natsserver"
	"github.com/outboxgen/outboxgen/internal/rabbitserver"
	"github.com/outboxgen/outboxgen/internal/throwaway"
)

// brokerServer is a throwaway broker that can die.
type brokerServer interface {
	URL() string

	// Kill ends it as kill -9 does, Restart starts it on the same data and port.
	Kill() error
	Restart(ctx context.Context) error

	Close()
}

func startBroker(ctx context.Context, name string) (brokerServer, error) {
	if name == "rabbitmq" {
		return rabbitserver.Start(ctx, rabbitserver.Config{})
	}
	dir, err := os.MkdirTemp("", "outboxgen-runbooks-nats-")
	if err != nil {
		return nil, err
	}
	s := &natsProcess{cfg: natsserver.Config{Dir: dir}}
	if s.cfg.Port, err = throwaway.FreePort(); err == nil {
		err = s.Restart(ctx)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// natsEnv has the settings of a NATS server, which is this program again.
const natsEnv = "OUTBOXGEN_RUNBOOKS_NATS"

func runNATS(text string) int {
	var cfg natsserver.Config
	err := json.Unmarshal([]byte(text), &cfg)
	if err == nil {
		_, err = natsserver.Start(cfg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	select {}
}

// natsProcess is a NATS server in a process of its own: it can be killed and stopped.
type natsProcess struct {
	cfg  natsserver.Config
	proc *throwaway.Process
}

func (s *natsProcess) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.cfg.Port)) }

func (s *natsProcess) URL() string { return "nats://" + s.addr() }

func (s *natsProcess) Kill() error {
	s.proc.Kill()
	return nil
}

func (s *natsProcess) Restart(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(s.cfg)
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), natsEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	if s.proc, err = throwaway.Start(cmd); err != nil {
		return err
	}
	return await(ctx, 20*time.Second, "the NATS server takes connections", func() (bool, error) {
		conn, err := net.Dial("tcp", s.addr())
		if err != nil {
			return false, nil //nolint:nilerr // it isn't there yet
		}
		return true, conn.Close()
	})
}

func (s *natsProcess) Close() {
	if s.proc != nil {
		s.proc.Kill()
	}
	_ = os.RemoveAll(s.cfg.Dir) // nobody needs its data any more
}

// await waits until done holds.
func await(ctx context.Context, bound time.Duration, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	for {
		ok, err := done()
		if ok && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waited %v in vain until %s", bound, what), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
