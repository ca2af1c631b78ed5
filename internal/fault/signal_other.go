//go:build !unix

package fault

import "errors"

func signalSelf(Action) error { return errors.New("this system has no such signal") }
