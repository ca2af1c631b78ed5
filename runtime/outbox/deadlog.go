package outbox

import (
	"log/slog"
	"sync"
	"time"
)

// maxDeadLines is how many dead events are told of one by one in a minute.
const maxDeadLines = 10

// deadLog tells of each dead event; when there are many, of the rest in one line
// at the minute's end. Where they are is in the table.
type deadLog struct {
	log *slog.Logger

	mu     sync.Mutex
	minute *time.Timer // nil between minutes
	told   int         // in this minute
	untold int
}

func (d *deadLog) event(o *EventOutcome) {
	if d.counts() {
		d.log.Warn("event is dead", "event", o.Key, "failure", o.Failure.String(), "reason", o.Reason)
	}
}

// counts reports whether there is room for a line.
func (d *deadLog) counts() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.minute == nil {
		d.minute = time.AfterFunc(time.Minute, d.endMinute)
	}
	if d.told == maxDeadLines {
		d.untold++
		return false
	}
	d.told++
	return true
}

func (d *deadLog) endMinute() {
	d.mu.Lock()
	untold := d.untold
	d.minute, d.told, d.untold = nil, 0, 0
	d.mu.Unlock()
	if untold > 0 {
		d.log.Warn("more events are dead", "events", untold)
	}
}

// close tells what is untold.
func (d *deadLog) close() {
	d.mu.Lock()
	if d.minute != nil {
		d.minute.Stop()
	}
	d.mu.Unlock()
	d.endMinute()
}
