//go:build unix

package main

import (
	"os/signal"
	"syscall"
	"testing"
)

// Each signal that asks the program to end ends the context, and not the process.
func TestSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		ctx, stop := untilAskedToEnd()
		if err := syscall.Kill(syscall.Getpid(), s); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		stop()
	}
}

// Under nohup a closed terminal ends nothing.
func TestHangUpStaysIgnored(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	_, stop := untilAskedToEnd()
	defer stop()
	if !signal.Ignored(syscall.SIGHUP) {
		t.Error("a hang-up is no longer ignored")
	}
}
