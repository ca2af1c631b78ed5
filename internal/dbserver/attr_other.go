//go:build !linux

package dbserver

import "syscall"

// serverAttr asks for nothing: only Linux ends a child with its parent.
func serverAttr() *syscall.SysProcAttr { return nil }
