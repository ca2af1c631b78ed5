package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// stopTimeout bounds a clean stop of a child.
const stopTimeout = 25 * time.Second

// processes are the demo's children. None of them outlives it.
type processes struct {
	dir  string
	fail context.CancelCauseFunc // called when one ends that shouldn't

	mu  sync.Mutex
	all []*process
}

func newProcesses(dir string, fail context.CancelCauseFunc) *processes {
	return &processes{dir: dir, fail: fail}
}

// process is one child.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *lineLog
	done chan struct{} // closed when it has ended and its output was read to the end

	// mayEnd: its end is no surprise.
	mayEnd atomic.Bool
}

// start starts a program with variables added to the environment. onLine gets
// each line that it writes; it may be nil.
func (p *processes) start(name, path string, env []string, onLine func(*process, string)) (*process, error) {
	file, err := os.Create(filepath.Join(p.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	c := &process{name: name, cmd: exec.Command(path), done: make(chan struct{})}
	c.log = &lineLog{file: file, onLine: func(line string) {
		if onLine != nil {
			onLine(c, line)
		}
	}}
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	c.cmd.SysProcAttr = childAttr()
	started := make(chan error)
	go c.run(started, p.fail)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, c)
	return c, nil
}

// run starts the child and waits for its end on one operating-system thread,
// kept for this alone: Linux sends the death signal when the thread that
// started the child ends (prctl(2), PR_SET_PDEATHSIG). The lock is never given
// back, so that the thread ends with the goroutine.
func (c *process) run(started chan<- error, fail context.CancelCauseFunc) {
	runtime.LockOSThread()
	defer close(c.done)
	defer c.log.close()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = c.cmd.Wait() // its state says it all
	if !c.mayEnd.Load() {
		fail(fmt.Errorf("%s ended unexpectedly (%v); the end of its log:\n%s", c.name, c.cmd.ProcessState, c.log.tail()))
	}
}

// pid is the child's process id.
func (c *process) pid() int { return c.cmd.Process.Pid }

// killedBySIGKILL reports how the child ended. It is for after done.
func (c *process) killedBySIGKILL() bool {
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// stop asks the child to end and waits for it.
func (c *process) stop() error {
	c.mayEnd.Store(true)
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	select {
	case <-c.done:
	case <-time.After(stopTimeout):
		return fmt.Errorf("%s did not stop within %v of SIGTERM; the end of its log:\n%s", c.name, stopTimeout, c.log.tail())
	}
	if code := c.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s did not stop cleanly (%v); the end of its log:\n%s", c.name, c.cmd.ProcessState, c.log.tail())
	}
	return nil
}

// stopAll stops children side by side.
func stopAll(children ...*process) error {
	errs := make([]error, len(children))
	var stopping sync.WaitGroup
	for i, c := range children {
		stopping.Go(func() { errs[i] = c.stop() })
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// killAll ends what still runs.
func (p *processes) killAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.all {
		c.mayEnd.Store(true)
		_ = c.cmd.Process.Kill() // an error means that it has ended
		<-c.done
	}
}

// lineLog keeps a child's output in a file, hands on its lines, and remembers the last ones.
type lineLog struct {
	file   *os.File
	onLine func(string)

	mu      sync.Mutex
	partial []byte
	last    []string
}

const tailLines = 15

func (l *lineLog) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partial = append(l.partial, data...)
	for {
		line, rest, ok := bytes.Cut(l.partial, []byte("\n"))
		if !ok {
			break
		}
		l.line(string(line))
		l.partial = rest
	}
	return l.file.Write(data)
}

func (l *lineLog) line(line string) {
	l.last = append(l.last, line)
	if len(l.last) > tailLines {
		l.last = l.last[1:]
	}
	l.onLine(line)
}

func (l *lineLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.last, "\n")
}

func (l *lineLog) close() { _ = l.file.Close() } // a log only
