//go:build !unix

package dbserver

import (
	"errors"
	"os"
)

// Nothing here runs servers elsewhere yet; a DSN of one's own works.
var errUnsupported = errors.New("throwaway servers need Linux or another Unix")

func tryLock(*os.File) (bool, error) { return false, errUnsupported }

func ownedByUs(os.FileInfo) bool { return true }
