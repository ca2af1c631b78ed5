package outbox

import (
	"sync"
	"time"
)

// outage remembers that the broker is unavailable. While it is, the relay
// pauses, each pause longer than the last, and then probes with a single event.
//
// Several calls of the publisher are under way at once, and an answer tells of
// the time after its call began at best. So a call takes the epoch with it, and
// an answer to a call of an older epoch changes nothing: four batches that find
// the broker away make one pause, and a late confirm of a message sent before
// doesn't end it.
type outage struct {
	first, limit time.Duration

	mu    sync.Mutex
	epoch int       // pauses so far
	count int       // pauses in a row; 0 without an outage
	until time.Time // of the pause
}

// enter lets a call of the publisher through, during an outage only the probe's,
// and returns the epoch, for begin and end.
func (o *outage) enter(probe bool) (epoch int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.epoch, probe || o.count == 0
}

// begin notes that a call was not answered, and returns the pause; not ok when
// another call has told so already.
func (o *outage) begin(epoch int) (pause time.Duration, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if epoch != o.epoch {
		return 0, false
	}
	o.epoch++
	o.count++
	pause = backoff(o.first, o.limit, o.count)
	o.until = time.Now().Add(pause)
	return pause, true
}

// end notes that a call was answered, and reports whether that ended an outage.
func (o *outage) end(epoch int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if epoch != o.epoch || o.count == 0 {
		return false
	}
	o.count = 0
	return true
}

// left returns what is left of the pause, and whether there is an outage.
func (o *outage) left() (pause time.Duration, active bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count == 0 {
		return 0, false
	}
	return time.Until(o.until), true
}
