//go:build unix

package verify

import "syscall"

func resume(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }

func kill(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }
