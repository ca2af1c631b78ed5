//go:build !unix

package main

import "os"

func runCommand(_ []string, _ <-chan os.Signal, out *lines) int {
	out.printf("servers can be started on Linux and other Unix systems only")
	return 2
}

func watchParent(chan<- os.Signal, int) {}
