package main

import "syscall"

// childAttr makes the kernel end the child with the thread that started it (see
// process.run), however the demo ends, and keeps a terminal's Ctrl-C away from
// it: the demo ends its children itself.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
