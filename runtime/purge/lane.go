package purge

import "time"

const (
	// A look goes back behind the events that the one before found too young, but at
	// most by so much time and so many events. What lies further back is found by
	// the next look from the start.
	overlapTime   = time.Minute
	overlapEvents = 10_000

	// maxRead is the most rows that are read at once, where so many are due at one
	// moment.
	maxRead = 20_000
)

// lane is how far the published events of a lane have been looked through, in the
// order of available_at.
//
// That is not the order in which they become old: an event that was tried for a day
// is published a day after those beside it. So a cursor doesn't stop at an event
// that is too young, it goes on behind it.
type lane struct {
	number uint16
	from   int64 // where the next read begins
	limit  int   // of the next read
	again  bool  // on the way from the start
	done   bool  // for this pass

	left  int   // how many events this look came by and left
	young int64 // the place of the first of them
}

// advance moves the cursor behind what was read. deleted says how many of the rows
// are gone.
func (l *lane) advance(rows []Purgeable, deleted int, batch int) {
	last := l.from
	if len(rows) > 0 {
		last = rows[len(rows)-1].AvailableUs
	}
	if deleted < len(rows) {
		if l.left == 0 {
			l.young = firstLeft(rows, deleted)
		}
		l.left += len(rows) - deleted
	}
	switch {
	case len(rows) < l.limit:
		l.finish(last, batch)
	case last > l.from:
		l.from, l.limit = last, batch
	case deleted > 0:
		// All of them are due at one moment, and others may be: read on there.
	case l.limit < maxRead:
		l.limit = min(2*l.limit, maxRead) // look behind those that stay
	default:
		l.from, l.limit = last+1, batch // the look from the start sees more when some of these are gone
	}
}

// finish ends the look at the lane's last row.
func (l *lane) finish(last int64, batch int) {
	l.from, l.limit = last, batch
	if l.left > 0 && l.left <= overlapEvents {
		l.from = max(l.young, last-overlapTime.Microseconds())
	}
	l.left, l.again, l.done = 0, false, true
}

// firstLeft is the place of the first row that is still there. Which ones are gone
// is not known when none was deleted: they may be locked.
func firstLeft(rows []Purgeable, deleted int) int64 {
	if deleted > 0 {
		for _, row := range rows {
			if row.Purgeable == 0 {
				return row.AvailableUs
			}
		}
	}
	return rows[0].AvailableUs
}
