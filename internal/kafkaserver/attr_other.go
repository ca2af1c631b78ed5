//go:build !linux

package kafkaserver

import "syscall"

// brokerAttr asks for nothing: only Linux ends a child with its parent.
func brokerAttr() *syscall.SysProcAttr { return nil }
