//go:build !unix

package main

import "errors"

var errNoSignals = errors.New("this system can't stop and continue a process")

func freeze(int) error { return errNoSignals }

func thaw(int) error { return errNoSignals }
