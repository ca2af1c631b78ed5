package outbox

import "sync/atomic"

// ConsumerStats counts what a consumer did since it was made.
type ConsumerStats struct {
	Attempts   int64 // calls of Handle and Redrive
	Applied    int64
	Duplicates int64 // absorbed by the dedup row
	Skipped    int64 // stale
	Parked     int64 // unreadable messages among them
	Errors     int64 // not acknowledged
}

type consumerCounters struct{ attempts, applied, duplicates, skipped, parked, errors atomic.Int64 }

func (s *consumerCounters) count(h Handling, err error) {
	switch {
	case err != nil:
		s.errors.Add(1)
	case h == Applied:
		s.applied.Add(1)
	case h == Duplicate:
		s.duplicates.Add(1)
	case h == Skipped:
		s.skipped.Add(1)
	case h == Parked:
		s.parked.Add(1)
	}
}

// Stats returns the counts so far.
func (c *Consumer) Stats() ConsumerStats {
	return ConsumerStats{
		Attempts:   c.stats.attempts.Load(),
		Applied:    c.stats.applied.Load(),
		Duplicates: c.stats.duplicates.Load(),
		Skipped:    c.stats.skipped.Load(),
		Parked:     c.stats.parked.Load(),
		Errors:     c.stats.errors.Load(),
	}
}
