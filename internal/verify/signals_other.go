//go:build !unix

package verify

import "errors"

var errNoSignals = errors.New("this system can't stop and continue a process")

func resume(int) error { return errNoSignals }

func kill(int) error { return errNoSignals }

func dump(int) error { return errNoSignals }
