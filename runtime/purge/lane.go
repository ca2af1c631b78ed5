package purge

// lane is how far the published events of a lane have been looked through, in the
// order of available_at.
//
// That is not the order in which they become old: an event that was tried for a day
// is published a day after those beside it. So a cursor doesn't stop at an event
// that is too young, it goes on behind it, and remembers the first one for the next
// look; what lies further back is found by the look from the start.
type lane struct {
	number uint16
	from   int64 // where the next read begins
	limit  int   // of the next read
	again  bool  // on the way from the start
	done   bool  // for this pass

	young    int64 // the first that this look came by and left, if hasYoung
	hasYoung bool
}

// advance moves the cursor behind what was read. deleted says how many of the rows
// are gone.
func (l *lane) advance(rows []Purgeable, deleted int64, batch int) {
	last := l.from
	if len(rows) > 0 {
		last = rows[len(rows)-1].AvailableUs
	}
	if !l.hasYoung && deleted < int64(len(rows)) {
		l.young, l.hasYoung = firstLeft(rows, deleted), true
	}
	switch {
	case len(rows) < l.limit:
		l.finish(last)
		l.limit = batch
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
func (l *lane) finish(last int64) {
	l.from = last
	if l.hasYoung {
		l.from = max(l.young, last-overlap.Microseconds())
	}
	l.again, l.done, l.hasYoung = false, true, false
}

// firstLeft is the place of the first row that is still there. Which ones were
// deleted is not known when some were locked, or deleted by another.
func firstLeft(rows []Purgeable, deleted int64) int64 {
	if deleted > 0 {
		for _, row := range rows {
			if row.Purgeable == 0 {
				return row.AvailableUs
			}
		}
	}
	return rows[0].AvailableUs
}
