package throwaway

import "syscall"

// attr makes the kernel end the program with the thread that started it
// (see Process.run), and keeps a terminal's Ctrl-C, which goes to the whole
// process group, away from it: the starter stops it when it is ready to.
func attr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
