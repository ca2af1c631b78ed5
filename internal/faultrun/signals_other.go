//go:build !unix

package main

import (
	"errors"
	"os"
)

var errNoStop = errors.New("a process can be stopped and continued on Unix systems only")

func stopProcess(*os.Process) error     { return errNoStop }
func continueProcess(*os.Process) error { return errNoStop }
