package sim

import (
	"os"
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(1000) // runs are short and leave nothing
	os.Exit(m.Run())
}
