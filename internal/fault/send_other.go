//go:build unix && !linux

package fault

import (
	"os"
	"syscall"
)

func sendSelf(signal syscall.Signal) error { return syscall.Kill(os.Getpid(), signal) }
