package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/internal/throwaway"
)

// process is a child as its parent sees it.
type process struct {
	name string
	proc *throwaway.Process
	log  logBuffer

	ready   chan struct{}
	hit     chan struct{} // closed, as all of these, at the first such line
	passed  chan struct{}
	written chan struct{}
}

// start starts a child. script is for its fault points; onLine gets every line of it, one after the other.
func start(name string, o orders, script string, onLine func(line)) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	p := &process{
		name: name, ready: make(chan struct{}), hit: make(chan struct{}), passed: make(chan struct{}), written: make(chan struct{}),
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(text), fault.EnvVar+"="+script)
	cmd.Stdout = &lineWriter{func(l line) { p.note(l); onLine(l) }, nil}
	cmd.Stderr = &p.log
	if p.proc, err = throwaway.Start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

func (p *process) note(l line) {
	signal, ok := map[string]chan struct{}{
		lineReady: p.ready, lineHit: p.hit, linePassed: p.passed, lineWritten: p.written,
	}[l.Kind]
	if !ok {
		return
	}
	select {
	case <-signal:
	default:
		close(signal)
	}
}

// await waits for a signal of the child's. Its end before that is an error.
func (p *process) await(ctx context.Context, what string, signal <-chan struct{}, bound time.Duration) error {
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-signal:
		return nil
	case <-p.proc.Done():
		select {
		case <-signal:
			return nil
		default:
			return fmt.Errorf("%s ended before it was %s: %w%s", p.name, what, p.proc.Err(), p.log.tail())
		}
	case <-timer.C:
		return fmt.Errorf("%s was not %s within %v%s", p.name, what, bound, p.log.tail())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// resume sends SIGCONT until the child has told that it goes on: it may not have stopped
// yet when it told that it would.
func (p *process) resume(ctx context.Context) error {
	for {
		if err := resume(p.proc.PID()); err != nil && !p.proc.Ended() {
			return err
		}
		select {
		case <-p.passed:
			return nil
		case <-p.proc.Done():
			return fmt.Errorf("%s ended while it was stopped: %w", p.name, p.proc.Err())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop asks the child to end, and reports how it did. The log of one that doesn't has the
// stacks of its goroutines.
func (p *process) stop() error {
	slow := time.AfterFunc(stopBound, func() { _ = dump(p.proc.PID()) }) // at worst without stacks
	defer slow.Stop()
	p.proc.Stop(stopBound + 5*time.Second)
	if err := p.proc.Err(); err != nil {
		return fmt.Errorf("%s did not end well: %w%s", p.name, err, p.log.tail())
	}
	return nil
}

// lineWriter makes lines of what a child writes.
type lineWriter struct {
	onLine func(line)
	rest   []byte
}

func (w *lineWriter) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for {
		text, rest, ok := bytes.Cut(w.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return 0, fmt.Errorf("a child wrote %q: %w", text, err)
		}
		w.rest = rest
		w.onLine(l)
	}
}

// logBuffer keeps what a child logs.
type logBuffer struct {
	mu  sync.Mutex
	all []byte
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, p...)
	return len(p), nil
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.all)
}

// tail is the end of it, for messages.
func (b *logBuffer) tail() string {
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	return "\nend of its log:\n" + strings.Join(lines[max(0, len(lines)-15):], "\n")
}
