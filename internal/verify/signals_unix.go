//go:build unix

package verify

import "syscall"

func resume(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }

func kill(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }

// dump ends a Go program that then prints what each of its goroutines does.
func dump(pid int) error { return syscall.Kill(pid, syscall.SIGQUIT) }
