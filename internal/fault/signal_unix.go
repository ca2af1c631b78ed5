//go:build unix

package fault

import (
	"os"
	"syscall"
)

func signalSelf(a Action) error {
	signal := syscall.SIGSTOP
	if a == Kill {
		signal = syscall.SIGKILL
	}
	if err := syscall.Kill(os.Getpid(), signal); err != nil {
		return err
	}
	if a == Kill {
		select {} // it takes a moment
	}
	return nil
}
