package outbox

import (
	"context"
	"sync"
	"time"
)

// end is when the lease ends, by this process's clock.
func (b *leasedBatch) end() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.until
}

// mayPublish holds when the lease leaves that much time, and the margin for the mark.
func (b *leasedBatch) mayPublish(timeout time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.lost && time.Until(b.until)-b.margin >= timeout
}

// renewed moves the lease's end on after a call of Renew that said how many of
// the events are still the batch's.
func (b *leasedBatch) renewed(until time.Time, still int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lost = b.lost || still < len(b.Events)
	if still > 0 {
		b.until = until
	}
}

func (b *leasedBatch) isLost() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost
}

func (b *leasedBatch) waitUntil(t time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.patience = t
}

// overdue reports whether the publisher, once it was called, is no longer waited for.
func (b *leasedBatch) overdue() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.patience.IsZero() && time.Now().After(b.patience)
}

// leaseSuffices holds when the publish can be over before the lease is, if
// need be after a renewal.
func (r *relayRun) leaseSuffices(b *leasedBatch) bool {
	if b.mayPublish(r.cfg.PublishTimeout) {
		return true
	}
	left := time.Until(b.end())
	_ = r.renew(b) // it has said so; what counts is the lease
	switch {
	case b.mayPublish(r.cfg.PublishTimeout):
		return true
	case b.isLost():
		r.troubles.lost.note(len(b.Events), "when", "before the publish")
	default:
		r.troubles.short.note(len(b.Events), "left", left)
	}
	r.short.Add(1)
	return false
}

// storeCall bounds one call of Renew or Settle: one that hangs must leave time for
// another.
func (r *relayRun) storeCall() (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.grace, max(r.cfg.Lease/4, time.Second))
}

// renew asks the store for another lease's length. It never runs beside another
// call of the store's for the same batch.
func (r *relayRun) renew(b *leasedBatch) error {
	call, cancel := r.storeCall()
	defer cancel()
	before := time.Now()
	still, err := r.store.Renew(call, b.Batch, r.cfg.Lease)
	if err != nil {
		r.observer.storeFailed("renew", err)
		r.troubles.renew.note(1, "events", len(b.Events), "error", err)
		return err
	}
	r.stats.renewals.Add(1)
	r.troubles.renew.end()
	b.renewed(before.Add(r.cfg.Lease), still)
	return nil
}

// keepLease renews the batch's lease, whenever less than half of it is left,
// until stop is called. stop waits for a renewal under way rather than cutting it
// short: a statement that was cut may still run on the server, after the
// settlement.
func (r *relayRun) keepLease(b *leasedBatch) (stop func()) {
	done := make(chan struct{})
	var keeper sync.WaitGroup
	keeper.Go(func() { r.renewUntil(done, b) })
	return func() {
		close(done)
		keeper.Wait()
	}
}

func (r *relayRun) renewUntil(done <-chan struct{}, b *leasedBatch) {
	for failures := 0; ; {
		wait := time.Until(b.end()) - r.cfg.Lease/2
		if failures > 0 {
			wait = backoff(r.cfg.OutageBackoff, r.cfg.OutageBackoffMax, failures)
		}
		timer := time.NewTimer(wait)
		select {
		case <-done:
			timer.Stop()
			return
		case <-timer.C:
		}
		if b.overdue() {
			// A publisher that hangs, against its contract, must not keep the events
			// from other relays for ever.
			r.troubles.overdue.note(1, "events", len(b.Events))
			return
		}
		if err := r.renew(b); err != nil {
			failures++
			continue
		}
		failures = 0
		if b.isLost() { // what is left of it was renewed; the settlement tells of the rest
			return
		}
	}
}
