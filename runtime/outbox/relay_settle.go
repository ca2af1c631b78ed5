package outbox

import (
	"slices"
	"time"

	"github.com/outboxgen/outboxgen/internal/fault"
)

// settlePatience is for how many leases' lengths a settlement is tried while the
// lease can be renewed. If it can't be recorded then, a person must look, and
// other relays must get at the events again.
const settlePatience = 10

// settle tries until it succeeds, or the lease or the grace after a stop is over,
// and at least once: the store marks only what is still this lease's, so that a
// late try does no harm and may spare a repeat. What is not marked is published
// again. The store is told of every batch, also when there is nothing to mark.
func (r *relayRun) settle(b *leasedBatch, outcomes []EventOutcome) {
	giveUp := time.Now().Add(settlePatience * r.cfg.Lease)
	for failures := 1; ; failures++ {
		result, took, err := r.callSettle(b, outcomes)
		if err == nil {
			r.troubles.settle.end()
			r.handedOver.settled(outcomes)
			r.count(b, outcomes, result)
			r.observer.settled(result, outcomes, took)
			return
		}
		r.observer.storeFailed("settle", err)
		r.troubles.settle.note(1, "events", len(b.Events), "error", err)
		if !r.mayRetrySettle(b, failures, giveUp) {
			r.handedOver.add(outcomes)
			r.stats.abandoned.Add(int64(len(b.Events)))
			r.troubles.abandoned.note(len(b.Events), "error", err)
			r.observer.abandoned(len(b.Events))
			return
		}
	}
}

func (r *relayRun) callSettle(b *leasedBatch, outcomes []EventOutcome) (Settlement, time.Duration, error) {
	_ = fault.At(r.grace, fault.RelayOverdue) // before the time of the call begins
	call, cancel := r.storeCall()
	defer cancel()
	before := time.Now()
	result, err := r.store.Settle(call, b.Batch, outcomes)
	if err == nil {
		_ = fault.At(call, fault.RelayMarked)
	}
	return result, time.Since(before), err
}

// mayRetrySettle waits before another try, at the end of the lease at the latest,
// and returns false when there shall be none.
func (r *relayRun) mayRetrySettle(b *leasedBatch, failures int, giveUp time.Time) bool {
	if r.grace.Err() == nil && time.Until(b.end()) < r.cfg.Lease/2 {
		_ = r.renew(b) // it has said so
	}
	left := min(time.Until(b.end()), time.Until(giveUp))
	if left <= 0 {
		return false
	}
	return sleep(r.grace, min(left, backoff(r.cfg.OutageBackoff, r.cfg.OutageBackoffMax, failures)))
}

// count adds up what the store has recorded.
func (r *relayRun) count(b *leasedBatch, outcomes []EventOutcome, s Settlement) {
	r.stats.published.Add(int64(s.Published))
	r.stats.released.Add(int64(s.Released))
	r.stats.retried.Add(int64(s.Retried))
	r.stats.dead.Add(int64(s.Dead))
	r.stats.lost.Add(int64(len(s.Lost)))
	if len(s.Lost) > 0 {
		r.troubles.lost.note(len(s.Lost), "when", "before the mark", "first", s.Lost[0])
	}
	if s.Dead == 0 {
		return
	}
	for i := range outcomes {
		if o := &outcomes[i]; o.Kind == OutcomeDead && !slices.Contains(s.Lost, o.Key) {
			r.dead.event(o)
		}
	}
}
