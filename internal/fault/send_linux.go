package fault

import (
	"os"
	"runtime"
	"syscall"
)

// sendSelf sends to this very thread: it doesn't come back from the call before the signal
// has had its effect. One that is sent to the process may stop it a little later, when
// the goroutine is past its point.
func sendSelf(signal syscall.Signal) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return syscall.Tgkill(os.Getpid(), syscall.Gettid(), signal)
}
