package purge

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// The wait after a pass that failed; it doubles with each.
const (
	firstBackoff = time.Second
	maxBackoff   = time.Minute
)

// backoff returns first doubled n-1 times, at most limit, less a random part of
// up to a half, so that what failed together doesn't come back together.
func backoff(first, limit time.Duration, n int) time.Duration {
	d := min(first, limit)
	for i := 1; i < n && d < limit; i++ {
		d = min(2*d, limit)
	}
	return d - rand.N(d/2+1)
}

// sleep waits for d or until ctx ends, and reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err() == nil
}

// graceAfter returns a context that ends some time after ctx has ended.
func graceAfter(ctx context.Context, grace time.Duration) (context.Context, func()) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(grace, cancel)
		context.AfterFunc(out, func() { timer.Stop() })
	})
	return out, func() { stop(); cancel() }
}

// warner warns of a trouble that lasts, or comes and goes, once in a while.
type warner struct {
	log    *slog.Logger
	warned time.Time
	on     bool // warned of, and not over
}

// repeatWarning is after how long a trouble is warned of again.
const repeatWarning = 10 * time.Minute

func (w *warner) warn(message string, args ...any) {
	if w.warned.IsZero() || time.Since(w.warned) >= repeatWarning {
		w.warned, w.on = time.Now(), true
		w.log.Warn(message, args...)
	}
}

// over tells of the end of a trouble that was warned of.
func (w *warner) over(message string) {
	if w.on {
		w.on = false
		w.log.Info(message)
	}
}

// again tells when to look at everything from the start. That finds the rows that
// a cursor has passed before they were old, or there. It is paid for with reads that
// find nothing, and these must not eat the time for the others.
type again struct {
	every time.Duration
	begun time.Time
	spent atomic.Int64 // nanoseconds since then, on reads that found nothing
}

// share is which part of the time such reads may take: one in so many.
const share = 20

func (a *again) due() bool {
	return a.begun.IsZero() || time.Since(a.begun) >= max(a.every, share*time.Duration(a.spent.Load()))
}

func (a *again) begin() {
	a.begun = time.Now()
	a.spent.Store(0)
}

func (a *again) spend(d time.Duration) { a.spent.Add(int64(d)) }
