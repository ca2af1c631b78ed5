package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// untilAskedToEnd returns a context that ends when the user or the system asks for it,
// a terminal that is closed included: commands then leave no file half done. A hang-up
// that is ignored, as under nohup, stays so.
func untilAskedToEnd() (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(context.Background(), signals...)
}

// ignoreTerminal is for a child: a terminal signals to all of its processes at once.
func ignoreTerminal() { signal.Ignore(os.Interrupt, syscall.SIGHUP) }
