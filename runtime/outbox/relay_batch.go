package outbox

import (
	"context"
	"sync"
	"time"
)

// leasedBatch is a batch in flight.
type leasedBatch struct {
	*Batch               // the store's: nothing in it is changed
	probe  bool          // of an outage: it alone is published while the broker is away
	margin time.Duration // RelayConfig.LeaseMargin

	mu       sync.Mutex
	until    time.Time // when the lease ends, by this process's clock: Batch.Until, later after a renewal
	lost     bool      // another relay has some of it
	patience time.Time // until when the publisher is waited for
}

// launch takes the batch through its steps in a goroutine of its own.
func (r *relayRun) launch(ctx context.Context, b *leasedBatch) {
	r.inFlight.Add(1)
	r.batches.Go(func() {
		defer func() {
			r.inFlight.Add(-1)
			notify(r.changed)
		}()
		r.settle(b, r.process(ctx, b))
	})
}

// process publishes the batch, or gives it back, and returns what became of its events.
func (r *relayRun) process(ctx context.Context, b *leasedBatch) []EventOutcome {
	if ctx.Err() != nil || !r.leaseSuffices(b) {
		return releaseAll(b.Events)
	}
	// It may have been claimed before the broker was found to be away, or before a stop.
	epoch, ok := r.outage.enter(b.probe)
	if !ok || ctx.Err() != nil {
		return releaseAll(b.Events)
	}
	r.short.Store(0)
	stop := r.keepLease(b)
	defer stop()
	return r.publish(ctx, b, epoch)
}

func releaseAll(events []Event) []EventOutcome {
	outcomes := make([]EventOutcome, len(events))
	for i := range events {
		outcomes[i] = EventOutcome{Key: events[i].Key, Kind: OutcomeReleased}
	}
	return outcomes
}
