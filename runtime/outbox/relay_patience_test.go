package outbox

import (
	"testing"
	"time"
)

// The keeper of a lease may look before the publisher was called: a batch of
// which less than half the lease is left makes it look at once.
func TestPublisherThatWasNotCalledIsNotOverdue(t *testing.T) {
	b := &leasedBatch{Batch: &Batch{}}
	if b.overdue() {
		t.Error("overdue before the call")
	}
	b.waitUntil(time.Now().Add(time.Hour))
	if b.overdue() {
		t.Error("overdue before its time")
	}
	b.waitUntil(time.Now().Add(-time.Second))
	if !b.overdue() {
		t.Error("not overdue after its time")
	}
}
