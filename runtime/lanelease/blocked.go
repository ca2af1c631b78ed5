package lanelease

import "time"

const (
	// mostBlocked is how many aggregates a read leaves out by name. Those beyond
	// are read and passed over.
	mostBlocked = 2000

	// slowRead is how long a read of a lane alone takes at least when its blocked
	// events are so many that it is to be read apart from others, and less often.
	slowRead = 3 * time.Millisecond

	// pace is how many times as long as a slow read took the lane is left alone.
	pace = 20

	// measureTime is after how long a lane with blocked events is read alone
	// again, to see how long that takes.
	measureTime = time.Second
)

// blocked are the aggregates of a lane of which an event waits for its next
// attempt, by hash, and until when. Two aggregates of the same hash wait for each
// other, which harms nobody.
//
// Their events stay in front of the lane: an order is kept by not going around
// them. So a read has to step over their index entries, each time. When they are
// many, the lane is read apart from others, so that it alone is slow.
type blocked struct {
	until    map[uint32]time.Time
	measured time.Time // when the lane was last read alone
	took     time.Duration
}

func (b *blocked) add(hash uint32, until time.Time) {
	if b.until == nil {
		b.until = map[uint32]time.Time{}
	}
	if b.until[hash].Before(until) {
		b.until[hash] = until
	}
}

// hashes returns the aggregates that are blocked now, at most so many.
func (b *blocked) hashes(now time.Time, limit int) []uint32 {
	var out []uint32
	for hash, until := range b.until {
		switch {
		case !now.Before(until):
			delete(b.until, hash)
		case len(out) < limit:
			out = append(out, hash)
		}
	}
	if len(b.until) == 0 {
		*b = blocked{}
	}
	return out
}

// alone reports whether the lane must be read alone: its blocked events are
// many, or how many they are isn't known.
func (b *blocked) alone(now time.Time) bool {
	return len(b.until) > 0 && (b.took >= slowRead || now.Sub(b.measured) >= measureTime)
}

// rests reports whether the lane is left alone for now.
func (b *blocked) rests(now time.Time) bool {
	return len(b.until) > 0 && b.took >= slowRead && now.Sub(b.measured) < pace*b.took
}

// measure notes a read of the lane alone.
func (b *blocked) measure(start, end time.Time) {
	b.measured, b.took = end, end.Sub(start)
}
