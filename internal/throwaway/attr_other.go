//go:build !linux

package throwaway

import "syscall"

// attr asks for nothing: only Linux ends a child with its parent.
func attr() *syscall.SysProcAttr { return nil }
