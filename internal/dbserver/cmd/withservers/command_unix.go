//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// runCommand runs the command and returns its exit code, 128 + the signal
// where one ended it, as a shell does.
func runCommand(argv []string, signals <-chan os.Signal, out *lines) int {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// A group of its own: go test, for one, leaves an interrupt to the test
	// programs that it runs, so a signal must reach them all, and once. In a
	// terminal the group has to be the foreground one, to read from it and
	// to get its Ctrl-C.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP); err == nil && group == syscall.Getpgrp() {
		cmd.SysProcAttr.Foreground = true
		cmd.SysProcAttr.Ctty = 0
	}
	if err := cmd.Start(); err != nil {
		out.printf("%v", err)
		return 2
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			// An error means that the group is gone, which ended tells, too.
			_ = syscall.Kill(-cmd.Process.Pid, sig.(syscall.Signal))
		case err := <-ended:
			return exitCode(err, out)
		}
	}
}

func exitCode(err error, out *lines) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		out.printf("%v", err)
		return 2
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}

// watchParent turns the parent's end into a SIGTERM: go run, when it is
// ended, takes nobody with it.
func watchParent(signals chan<- os.Signal, parent int) {
	for os.Getppid() == parent {
		time.Sleep(time.Second)
	}
	signals <- syscall.SIGTERM
}
