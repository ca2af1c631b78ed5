package outbox

import (
	"context"
	"time"
)

// claimAll claims batches and sends them on their way until ctx ends.
func (r *relayRun) claimAll(ctx context.Context) {
	wake, stopWakes := r.wakes()
	defer stopWakes()
	idle := newPoll(r.cfg.PollInterval)
	failures := 0
	for {
		probe, ok := r.awaitTurn(ctx)
		if !ok {
			return
		}
		// What these tell of came before this claim, which will see it.
		drain(wake)
		drain(r.changed)
		b, err := r.claim(ctx, probe)
		if err != nil {
			failures++
			r.observer.storeFailed("claim", err)
			r.troubles.claim.note(1, "error", err)
			sleep(ctx, backoff(r.cfg.OutageBackoff, r.cfg.OutageBackoffMax, failures))
			continue
		}
		failures = 0
		r.troubles.claim.end()
		if b == nil {
			idle.wait(ctx, wake, r.changed)
			continue
		}
		idle.reset()
		r.launch(ctx, b)
	}
}

// wakes returns the store's wakes, or a channel that never receives.
func (r *relayRun) wakes() (wake <-chan struct{}, stop func()) {
	if waker, ok := r.store.(Waker); ok {
		return waker.Wakes()
	}
	return nil, func() {}
}

// awaitTurn returns when another batch may be claimed, and whether it is to be
// the probe of an outage, for which nothing else may be in flight; not ok when ctx
// ended.
func (r *relayRun) awaitTurn(ctx context.Context) (probe, ok bool) {
	paced := false
	for ctx.Err() == nil {
		r.pulse.beat()
		pause, active := r.outage.left()
		most := int64(r.cfg.MaxBatches)
		if active {
			most = 1
		}
		short := int(r.short.Load())
		switch {
		case r.inFlight.Load() >= most:
			select {
			case <-ctx.Done():
			case <-r.changed:
			}
		case pause > 0:
			sleep(ctx, pause)
		case short > 0 && !paced:
			// Batches came whose lease left no time to publish: more of them at once
			// would only keep the database busy.
			sleep(ctx, backoff(r.cfg.OutageBackoff, r.cfg.OutageBackoffMax, short))
			paced = true
		default:
			return active, true
		}
	}
	return false, false
}

// claim returns nil when nothing is due.
func (r *relayRun) claim(ctx context.Context, probe bool) (*leasedBatch, error) {
	// A stop must not cut a claim in two: what it leased would then wait for the
	// lease's end, though nobody works on it. It gets a little time to finish.
	claimCtx, endGrace := graceAfter(ctx, r.cfg.LeaseMargin)
	defer endGrace()
	claimCtx, cancel := context.WithTimeout(claimCtx, r.cfg.Lease)
	defer cancel()
	limit := r.cfg.BatchSize
	if probe {
		limit = 1
	}
	before := time.Now()
	batch, err := r.store.Claim(claimCtx, ClaimRequest{
		Owner:    r.owner,
		Limit:    limit,
		MaxBytes: r.cfg.BatchBytes,
		Lease:    r.cfg.Lease,
		Probe:    probe,
	})
	if err != nil || batch == nil {
		return nil, err
	}
	r.onHold(batch.Hold)
	if len(batch.Events) == 0 {
		return nil, nil
	}
	until := batch.Until
	if until.IsZero() {
		until = before.Add(r.cfg.Lease)
	}
	r.stats.claimed.Add(int64(len(batch.Events)))
	r.observer.claimed(batch.Events, time.Since(before))
	return &leasedBatch{Batch: batch, probe: probe, margin: r.cfg.LeaseMargin, until: until}, nil
}

// onHold tells when claims are paused, and when they go on.
func (r *relayRun) onHold(h *Hold) {
	if (h != nil) == r.held {
		return
	}
	r.held = h != nil
	r.observer.onHold(h)
	if h == nil {
		r.log.Info("claims were resumed")
		return
	}
	r.log.Warn("claims are paused; outboxgen resume ends it", "operator", h.Operator, "reason", h.Reason, "since", h.Since)
}

// poll is the wait between two looks at an idle outbox: short at first, longer
// each time.
type poll struct {
	next, shortest, longest time.Duration
}

// pollSteps is the ratio of the longest wait to the shortest.
const pollSteps = 100

func newPoll(longest time.Duration) *poll {
	shortest := max(longest/pollSteps, time.Millisecond)
	return &poll{next: shortest, shortest: shortest, longest: longest}
}

func (p *poll) reset() { p.next = p.shortest }

// wait returns when it is time to look again, there may be something to find, or ctx ended.
func (p *poll) wait(ctx context.Context, wake, changed <-chan struct{}) {
	timer := time.NewTimer(p.next)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		p.next = min(2*p.next, p.longest)
	case <-wake:
		p.reset()
	case <-changed: // what waited for a batch in flight may be due now
		p.reset()
	}
}
