package outbox

import (
	"context"
	"sync/atomic"
	"time"
)

// settleAll records outcomes until there are no more, also after the run's
// context has ended.
func (r *relayRun) settleAll(in <-chan *leasedBatch) {
	for batch := range in {
		r.settle(batch)
	}
}

// settle tries until it succeeds, or the lease or the grace after a stop is over,
// and at least once: the store marks only what is still this lease's, so that a
// late try does no harm and may spare a repeat. What is not marked is published
// again.
func (r *relayRun) settle(b *leasedBatch) {
	if !needsSettling(b.outcomes) {
		return
	}
	leaseEnd, cancel := context.WithDeadline(r.grace, b.deadline.Add(r.cfg.LeaseMargin))
	defer cancel()
	for failures := 1; ; failures++ {
		// A call that hangs must leave time for another.
		call, cancelCall := context.WithTimeout(r.grace, max(r.cfg.Lease/4, time.Second))
		result, err := r.store.Settle(call, b.Batch, b.outcomes)
		cancelCall()
		if err == nil {
			r.count(b, result)
			return
		}
		if failures == 1 {
			r.log.Warn("settle failed; trying again", "events", len(b.Events), "error", err)
		}
		if !sleep(leaseEnd, backoff(r.cfg.OutageBackoff, r.cfg.OutageBackoffMax, failures)) {
			r.stats.abandoned.Add(int64(len(b.Events)))
			r.log.Warn("settle given up; the events are due again when their lease ends",
				"events", len(b.Events), "error", err)
			return
		}
	}
}

func needsSettling(outcomes []EventOutcome) bool {
	for _, o := range outcomes {
		if o.Kind != OutcomeUnknown {
			return true
		}
	}
	return false
}

func (r *relayRun) count(b *leasedBatch, s Settlement) {
	r.stats.published.Add(int64(s.Published))
	r.stats.released.Add(int64(s.Released))
	r.stats.retried.Add(int64(s.Retried))
	r.stats.dead.Add(int64(s.Dead))
	r.stats.lost.Add(int64(len(s.Lost)))
	if len(s.Lost) > 0 {
		r.log.Warn("events were no longer under this lease; they are left alone",
			"events", len(s.Lost), "first", s.Lost[0])
	}
	if s.Dead == 0 {
		return
	}
	for _, o := range b.outcomes {
		if o.Kind == OutcomeDead {
			r.log.Warn("event is dead", "event", o.Key, "failure", o.Failure.String(), "reason", o.Reason)
		}
	}
}

// RelayStats counts what a relay did since it was made, over all its runs.
type RelayStats struct {
	Claimed   int64 // events leased
	Confirmed int64 // events that the broker confirmed
	Published int64 // events marked published
	Retried   int64 // failed attempts that will be made again
	Dead      int64 // events buried
	Released  int64 // events given back without an attempt
	Unknown   int64 // events left to their lease: the broker may have them
	Lost      int64 // events whose lease was lost before the mark
	Abandoned int64 // events that could not be settled in time
	Pauses    int64 // pauses for want of a broker
}

type relayCounters struct {
	claimed, confirmed, published, retried, dead atomic.Int64
	released, unknown, lost, abandoned, pauses   atomic.Int64
}

// Stats returns the counts so far.
func (r *Relay) Stats() RelayStats {
	return RelayStats{
		Claimed:   r.stats.claimed.Load(),
		Confirmed: r.stats.confirmed.Load(),
		Published: r.stats.published.Load(),
		Retried:   r.stats.retried.Load(),
		Dead:      r.stats.dead.Load(),
		Released:  r.stats.released.Load(),
		Unknown:   r.stats.unknown.Load(),
		Lost:      r.stats.lost.Load(),
		Abandoned: r.stats.abandoned.Load(),
		Pauses:    r.stats.pauses.Load(),
	}
}
