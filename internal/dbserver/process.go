package dbserver

import (
	"os"
	"os/exec"
	"runtime"
	"time"
)

// A process is a running server program.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and been waited for
	err  error         // of its end; read only after done
}

func startProcess(bin *Binary, args []string, work *workDir) (*process, error) {
	output, err := os.OpenFile(work.join("output.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	argv := bin.argv(args...)
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.Dir = work.path
	p.cmd.Env = append(bin.env(), "TMPDIR="+work.join("tmp"))
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.ExtraFiles = []*os.File{work.lock}
	p.cmd.SysProcAttr = serverAttr()
	started := make(chan error)
	go p.run(started)
	return p, <-started
}

// run starts the program and waits for its end on one operating-system
// thread, kept for this alone: Linux sends the death signal when the thread
// that started the child ends, not when our process does (prctl(2),
// PR_SET_PDEATHSIG). The lock is never given back, so that the thread ends
// with the goroutine.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
	}
	close(p.done)
}

// stop asks the server to end, and kills it after the bound.
func (p *process) stop(bound time.Duration) {
	if terminate(p.cmd.Process) == nil {
		select {
		case <-p.done:
			return
		case <-time.After(bound):
		}
	}
	p.kill()
}

func (p *process) kill() {
	// An error means that it has ended already.
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
