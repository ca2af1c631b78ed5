package outbox

import (
	"context"
	"sync"
	"time"
)

// outage remembers that the broker is unavailable. While it is, the relay
// pauses, each pause longer than the last, and then probes with a single event.
type outage struct {
	first, limit time.Duration

	mu     sync.Mutex
	count  int       // unavailable answers in a row
	until  time.Time // of the pause
	reason string    // the last one given
}

// begin notes an unavailable answer and returns the pause, and whether the reason
// is another one than before.
func (o *outage) begin(reason string) (pause time.Duration, isNew bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	isNew = o.count == 0 || o.reason != reason
	o.count++
	o.reason = reason
	pause = backoff(o.first, o.limit, o.count)
	o.until = time.Now().Add(pause)
	return pause, isNew
}

// end notes a confirm, and reports whether there was an outage.
func (o *outage) end() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.count > 0
	o.count = 0
	return was
}

// active reports whether the last answer was unavailable.
func (o *outage) active() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count > 0
}

// wait returns when no pause is on, or false when ctx ended.
func (o *outage) wait(ctx context.Context) bool {
	for {
		o.mu.Lock()
		left := time.Duration(0)
		if o.count > 0 {
			left = time.Until(o.until)
		}
		o.mu.Unlock()
		if left <= 0 {
			return ctx.Err() == nil
		}
		if !sleep(ctx, left) {
			return false
		}
	}
}
