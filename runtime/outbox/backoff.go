package outbox

import (
	"context"
	"time"

	"github.com/outboxgen/outboxgen/internal/fault"
)

// backoff returns first doubled n-1 times, at most limit, less a random part of
// up to a half, so that what failed together doesn't come back together.
func backoff(first, limit time.Duration, n int) time.Duration {
	d := min(first, limit)
	for i := 1; i < n && d < limit; i++ {
		if d > limit/2 { // and doubling can't overflow
			d = limit
		} else {
			d *= 2
		}
	}
	return d - fault.Jitter(d/2)
}

// sleep waits for d or until ctx ends, and reports whether it waited d.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
