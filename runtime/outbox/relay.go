package outbox

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Relay carries events from a store to a broker. It claims a batch under a
// lease, publishes it with no transaction open, and settles it: what the broker
// confirmed is marked, what failed is tried again or buried, the rest is left
// to its lease. The three steps overlap for consecutive batches. Any number of
// relays can work on one outbox.
type Relay struct {
	store     Store
	publisher Publisher
	cfg       RelayConfig
	stats     relayCounters
}

// NewRelay checks the configuration; nil stands for all defaults.
func NewRelay(store Store, publisher Publisher, cfg *RelayConfig) (*Relay, error) {
	if store == nil || publisher == nil {
		return nil, errors.New("relay: a store and a publisher are needed")
	}
	r := &Relay{store: store, publisher: publisher, cfg: cfg.withDefaults()}
	if err := r.cfg.validate(); err != nil {
		return nil, err
	}
	return r, nil
}

// Run relays events until ctx ends, then stops cleanly and returns nil: no new
// claim is made, what is being published finishes or times out and is settled,
// what was claimed and not published is given back. That takes at most
// PublishTimeout plus twice LeaseMargin, and with a database that hangs in the
// middle of a COMMIT, its connection's readTimeout in addition.
//
// Errors of the database and of the broker don't end it; it waits and goes on.
// A relay may be run again, or several times at once: each run has an owner of
// its own.
func (r *Relay) Run(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	run := &relayRun{
		Relay:  r,
		owner:  Owner{ID: NewEventID(), Host: host, PID: os.Getpid()},
		outage: outage{first: r.cfg.OutageBackoff, limit: r.cfg.OutageBackoffMax},
	}
	run.log = r.cfg.Logger.With("relay", run.owner.ID.String())
	run.log.Info("relay started", "batch", r.cfg.BatchSize, "lease", r.cfg.Lease)

	var endGrace func()
	run.grace, endGrace = graceAfter(ctx, r.cfg.PublishTimeout+2*r.cfg.LeaseMargin)
	defer endGrace()
	claimed := make(chan *leasedBatch)
	results := make(chan *leasedBatch)
	var steps sync.WaitGroup
	steps.Go(func() { run.claimAll(ctx, claimed); close(claimed) })
	steps.Go(func() { run.publishAll(ctx, claimed, results); close(results) })
	steps.Go(func() { run.settleAll(results) })
	steps.Wait()

	if err := r.store.Release(run.grace, run.owner); err != nil {
		run.log.Warn("relay could not sign off", "error", err)
	}
	run.log.Info("relay stopped")
	return nil
}

// graceAfter returns a context that ends some time after ctx has ended.
func graceAfter(ctx context.Context, grace time.Duration) (context.Context, func()) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(grace, cancel)
		context.AfterFunc(out, func() { timer.Stop() })
	})
	return out, func() { stop(); cancel() }
}

// relayRun is one run of a relay.
type relayRun struct {
	*Relay
	owner  Owner
	grace  context.Context // for the database's calls: ends some time after Run's context
	outage outage
	log    *slog.Logger
}

// leasedBatch is a batch on its way through the steps.
type leasedBatch struct {
	*Batch

	// deadline is when the lease ends by this process's clock, less the margin.
	// The clock was read before the claim, so that it is early, never late.
	deadline time.Time

	outcomes []EventOutcome
}

// repeatWarning is after how long a trouble that lasts is warned of again.
const repeatWarning = 10 * time.Minute

// claimAll claims batches until ctx ends.
func (r *relayRun) claimAll(ctx context.Context, out chan<- *leasedBatch) {
	var (
		shortest = max(r.cfg.PollInterval/100, time.Millisecond)
		idle     = shortest
		failures int
		warned   time.Time
	)
	for r.outage.wait(ctx) {
		batch, err := r.claim(ctx)
		switch {
		case err != nil:
			failures++
			if failures == 1 || time.Since(warned) >= repeatWarning {
				warned = time.Now()
				r.log.Warn("claim failed; waiting for the database", "failed", failures, "error", err)
			}
			if !sleep(ctx, backoff(r.cfg.OutageBackoff, r.cfg.OutageBackoffMax, failures)) {
				return
			}
			continue
		case failures > 0:
			r.log.Info("claims work again", "failed", failures)
			failures = 0
		}
		if len(batch.Events) == 0 {
			if !sleep(ctx, idle) {
				return
			}
			idle = min(2*idle, r.cfg.PollInterval)
			continue
		}
		idle = shortest
		out <- batch // publishAll takes all there is, also after ctx ended
	}
}

func (r *relayRun) claim(ctx context.Context) (*leasedBatch, error) {
	// A stop must not cut a claim in two: what it leased would then wait for the
	// lease's end, though nobody works on it. It gets a little time to finish.
	claimCtx, endGrace := graceAfter(ctx, r.cfg.LeaseMargin)
	defer endGrace()
	claimCtx, cancel := context.WithTimeout(claimCtx, r.cfg.Lease)
	defer cancel()
	limit := r.cfg.BatchSize
	if r.outage.active() {
		limit = 1
	}
	before := time.Now()
	batch, err := r.store.Claim(claimCtx, ClaimRequest{
		Owner:    r.owner,
		Limit:    limit,
		MaxBytes: r.cfg.BatchBytes,
		Lease:    r.cfg.Lease,
	})
	if err != nil {
		return nil, err
	}
	r.stats.claimed.Add(int64(len(batch.Events)))
	return &leasedBatch{Batch: batch, deadline: before.Add(r.cfg.Lease - r.cfg.LeaseMargin)}, nil
}
