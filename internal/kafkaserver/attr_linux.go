package kafkaserver

import "syscall"

// brokerAttr makes the kernel end a broker with the thread that started it, and
// keeps a terminal's Ctrl-C away from it.
func brokerAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
