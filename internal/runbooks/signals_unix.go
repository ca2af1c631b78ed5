//go:build unix

package main

import "syscall"

// freeze stops a process where it is, as a paused virtual machine does; thaw lets it go on.
func freeze(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }

func thaw(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }
