package fault

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

var steady atomic.Bool

// Steady makes Jitter give the same each time until restore is called, so that a
// simulation can be repeated.
func Steady() (restore func()) {
	before := steady.Swap(true)
	return func() { steady.Store(before) }
}

// Jitter is a random part of d, the whole of it included; a half while it is steady.
func Jitter(d time.Duration) time.Duration {
	if steady.Load() {
		return d / 2
	}
	return rand.N(d + 1)
}
