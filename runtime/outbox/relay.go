package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Relay carries events from a store to a broker. It claims a batch under a
// lease, publishes it with no transaction open, and settles it: what the broker
// confirmed is marked, what failed is tried again or buried, the rest is left
// to its lease. Several batches are on their way at once. Any number of relays
// can work on one outbox.
type Relay struct {
	store     Store
	publisher Publisher
	cfg       RelayConfig
	stats     relayCounters
	check     storeCheck
	observer  *observing

	handedOver handedOver
	pulses     pulses
}

// NewRelay checks the configuration; nil stands for all defaults. A store that is
// a [Checker] is asked too, for 5 s at most: an [*UnfitError] of its is returned,
// wrapped. When it can't be asked, [Relay.Run] asks again.
func NewRelay(store Store, publisher Publisher, cfg *RelayConfig) (*Relay, error) {
	if store == nil || publisher == nil {
		return nil, errors.New("relay: a store and a publisher are needed")
	}
	r := &Relay{store: store, publisher: publisher, cfg: cfg.withDefaults()}
	if err := r.cfg.validate(); err != nil {
		return nil, err
	}
	r.observer = newObserving(r.cfg.Observer, r.cfg.Logger)
	r.check.trouble = newCheckTrouble(r.cfg.Logger)
	if err := r.checkStore(context.Background()); isUnfit(err) {
		return nil, fmt.Errorf("relay: %w", err)
	}
	return r, nil
}

// Run relays events until ctx ends, then stops cleanly and returns nil: no new
// claim is made, what is being published finishes or times out and is settled,
// what was claimed and not published is given back. That takes at most
// PublishTimeout plus twice LeaseMargin, and with a database that hangs in the
// middle of a COMMIT, its connection's readTimeout in addition. It relies on the
// publisher to return when its context ends.
//
// Errors of the database and of the broker don't end it; it waits and goes on.
// The one error it returns is an [*UnfitError], wrapped, when the database could
// not be asked before.
// A relay may be run again, or several times at once: each run has an owner of
// its own.
func (r *Relay) Run(ctx context.Context) error {
	run := r.newRun()
	r.pulses.add(&run.pulse)
	defer r.pulses.remove(&run.pulse)
	run.log.Info("relay started", "batch", r.cfg.BatchSize, "batches", r.cfg.MaxBatches, "lease", r.cfg.Lease)
	defer run.log.Info("relay stopped")
	defer run.dead.close()
	if err := run.awaitFitStore(ctx); err != nil {
		return fmt.Errorf("relay: %w", err)
	}

	var endGrace func()
	run.grace, endGrace = graceAfter(ctx, r.cfg.PublishTimeout+2*r.cfg.LeaseMargin)
	defer endGrace()
	var watch sync.WaitGroup
	if r.observer.wantsBacklog() {
		watch.Go(func() { run.watchBacklog(ctx) })
	}
	run.claimAll(ctx)
	run.batches.Wait()
	watch.Wait()

	if err := r.store.Release(run.grace, run.owner); err != nil {
		r.observer.storeFailed("release", err)
		run.log.Warn("relay could not sign off", "error", err)
	}
	return nil
}

// relayRun is one run of a relay.
type relayRun struct {
	*Relay
	owner    Owner
	grace    context.Context // for the database's calls: ends some time after Run's context
	log      *slog.Logger
	outage   outage
	pulse    pulse
	troubles troubles
	dead     deadLog

	batches  sync.WaitGroup // in flight
	inFlight atomic.Int64   // so many
	changed  chan struct{}  // receives when a batch or an outage has ended
	held     bool           // somebody has paused claims
	short    atomic.Int64   // batches in a row that were given back for want of lease
}

func (r *Relay) newRun() *relayRun {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	run := &relayRun{
		Relay:   r,
		owner:   Owner{ID: NewEventID(), Host: host, PID: os.Getpid()},
		outage:  outage{first: r.cfg.OutageBackoff, limit: r.cfg.OutageBackoffMax},
		changed: make(chan struct{}, 1),
	}
	run.log = r.cfg.Logger.With("relay", run.owner.ID.String())
	run.troubles = newTroubles(run.log)
	run.dead.log = run.log
	return run
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

// notify sends to a channel with room for one, unless it has one to read already.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// drain takes what is there to read.
func drain(c <-chan struct{}) {
	select {
	case <-c:
	default:
	}
}
