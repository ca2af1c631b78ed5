// Package throwaway has what the private servers of tests and of the demo have in
// common: a process that doesn't outlive ours, and a port that nobody takes meanwhile.
package throwaway

import (
	"os/exec"
	"runtime"
	"time"
)

// Process is a running program.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and been waited for
	err  error         // of its end; read only after done
}

// Start starts the program. On Linux it dies with this process, however that ends.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = attr()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	return p, <-started
}

// run starts the program and waits for its end on one operating-system
// thread, kept for this alone: Linux sends the death signal when the thread
// that started the child ends, not when our process does (prctl(2),
// PR_SET_PDEATHSIG). The lock is never given back, so that the thread ends
// with the goroutine.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
	}
	close(p.done)
}

// PID is the process ID, also when it has ended.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how it ended. Read it after Done.
func (p *Process) Err() error { return p.err }

// Ended reports whether the program has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Stop asks the program to end, and kills it after the bound.
func (p *Process) Stop(bound time.Duration) {
	if terminate(p.cmd.Process) == nil {
		select {
		case <-p.done:
			return
		case <-time.After(bound):
		}
	}
	p.Kill()
}

// Kill ends the program as kill -9 does, and returns when it has.
func (p *Process) Kill() {
	// An error means that it has ended already.
	_ = p.cmd.Process.Kill()
	<-p.done
}
