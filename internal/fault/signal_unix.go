//go:build unix

package fault

import "syscall"

func signalSelf(a Action) error {
	signal := syscall.SIGSTOP
	if a == Kill {
		signal = syscall.SIGKILL
	}
	if err := sendSelf(signal); err != nil {
		return err
	}
	if a == Kill {
		select {} // it takes a moment
	}
	return nil
}
