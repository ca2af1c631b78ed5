package dbserver

import "syscall"

// serverAttr makes the kernel end the server with the thread that started it
// (see process.run), and keeps a terminal's Ctrl-C, which goes to the whole
// process group, away from it: the starter stops it when it is ready to.
func serverAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
