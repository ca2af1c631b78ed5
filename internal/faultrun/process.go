package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fleet are relays in processes of their own, each at a place where another
// takes over when it has ended.
type fleet struct {
	dsn    string
	kind   kind
	lease  time.Duration
	broker *broker
	places []*place

	mu       sync.Mutex
	lost     int            // events whose lease was lost before the mark
	troubles map[string]int // errors of the store, by call and the server's number
}

// place is where a relay runs. Who of several does something to it holds the lock.
type place struct {
	sync.Mutex
	index   int
	process *os.Process
	ended   chan error
	started chan struct{}
}

func startFleet(dsn string, k kind, lease time.Duration, b *broker, relays int) (*fleet, error) {
	f := &fleet{dsn: dsn, kind: k, lease: lease, broker: b, troubles: map[string]int{}}
	for i := range relays {
		p := &place{index: i}
		if err := f.start(p); err != nil {
			f.killAll()
			return nil, err
		}
		f.places = append(f.places, p)
	}
	return f, nil
}

func (f *fleet) start(p *place) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envDSN+"="+f.dsn, envKind+"="+f.kind.name, envLease+"="+f.lease.String(),
		envURL+"="+f.broker.url+"/?relay="+strconv.Itoa(p.index))
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // never written to: see childIfAsked
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.process, p.ended, p.started = cmd.Process, make(chan error, 1), make(chan struct{})
	go func(ended chan error, started chan struct{}) {
		f.listen(out, started)
		ended <- cmd.Wait()
	}(p.ended, p.started)
	return nil
}

// listen reads what a relay tells until it ends.
func (f *fleet) listen(out io.Reader, started chan struct{}) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		f.mu.Lock()
		switch word {
		case "started":
			close(started)
		case "lost":
			n, _ := strconv.Atoi(rest)
			f.lost += n
		case "trouble":
			f.troubles[rest]++
		}
		f.mu.Unlock()
	}
}

// kill ends a relay with SIGKILL and waits for its end.
func (p *place) kill() {
	_ = p.process.Kill()
	<-p.ended
}

// terminate ends a relay with SIGTERM and waits for its end.
func (p *place) terminate(ctx context.Context) error {
	if err := p.process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-p.ended:
		p.ended <- err // for those who come later
		return err
	case <-ctx.Done():
		return fmt.Errorf("relay %d did not end: %w", p.index, context.Cause(ctx))
	}
}

// terminateAll ends all relays at once.
func (f *fleet) terminateAll(ctx context.Context) error {
	errs := make(chan error, len(f.places))
	for _, p := range f.places {
		go func() { errs <- p.terminate(ctx) }()
	}
	var first error
	for range f.places {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// killAll sees to it that no relay is left behind, stopped ones among them.
func (f *fleet) killAll() {
	for _, p := range f.places {
		_ = p.process.Kill()
	}
}
