package rolling

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// patience is how long to wait for what the processes do.
const patience = 60 * time.Second

// deployment is where the builds run.
type deployment struct {
	t   *testing.T
	env []string
}

func (d deployment) command(binary string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.Command(binary, args...)
	out := &bytes.Buffer{}
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), d.env...), out, out
	return cmd, out
}

// run runs a command of a build to its end.
func (d deployment) run(binary string, args ...string) {
	d.t.Helper()
	cmd, out := d.command(binary, args...)
	if err := cmd.Run(); err != nil {
		d.t.Fatalf("%s: %v\n%s", args[0], err, out)
	}
}

// start starts a process, and returns what stops it.
func (d deployment) start(binary string, args ...string) (stop func()) {
	d.t.Helper()
	cmd, out := d.command(binary, args...)
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		if err := cmd.Wait(); err != nil {
			d.t.Errorf("%s: %v\n%s", args[0], err, out)
		}
		d.t.Logf("%s %s:\n%s", binary, args[0], out)
	}
	d.t.Cleanup(stop)
	return stop
}
