package leasing

import (
	"sync"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// firstClaim is how many events are claimed before it is known how large they are.
const firstClaim = 50

// ClaimSize turns the bytes that a claim may read into a number of events. How
// large the next ones are isn't known before they are read, so it goes by the
// largest that was seen lately, and grows by doubling.
type ClaimSize struct {
	mu      sync.Mutex
	last    int // events in the last claim that had any
	largest int // bytes of payload; what is seen is halved with each claim
}

// Limit returns how many events a claim may read.
func (s *ClaimSize) Limit(c outbox.ClaimRequest) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := c.Limit
	switch {
	case c.MaxBytes <= 0:
	case s.last == 0:
		limit = min(limit, firstClaim)
	default:
		limit = min(limit, max(2*s.last, firstClaim), c.MaxBytes/max(s.largest, 1))
	}
	return int32(max(limit, 1))
}

// Seen notes what a claim has read, and its largest payload in bytes.
func (s *ClaimSize) Seen(events, largest int) {
	if events == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = events
	s.largest = max(largest, s.largest/2)
}
