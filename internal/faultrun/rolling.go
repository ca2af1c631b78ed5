package main

import (
	"context"
	"fmt"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// rollingSettings are those of a run that restarts relays in turn.
type rollingSettings struct {
	relays int
	rounds int
	rate   int // events written a second
	lease  time.Duration
	pause  time.Duration // after each restart
	seed   uint64
}

// rollingReport is what a run saw.
type rollingReport struct {
	*tally
	Written  int64
	Restarts int
	Rest     time.Duration // from the last write until nothing waited
	Troubles map[string]int
}

func (r *rollingReport) String() string {
	return fmt.Sprintf("%d written, %d confirmed, %d repeats, %d restarts, the last event was out %v after it was written, troubles %v",
		r.Written, r.Events, r.Repeats, r.Restarts, r.Rest.Round(time.Millisecond), r.Troubles)
}

// runRolling ends each relay with SIGTERM and starts it again, one after the other,
// while events are written. The broker answers promptly: nothing may be published twice.
func runRolling(ctx context.Context, k kind, db *outbox.DB, dsn string, s rollingSettings) (*rollingReport, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &workload{
		db: db, kind: k, seed: s.seed, writers: 4, rate: s.rate,
		aggregates: 100, events: 10_000, // more than there is time for
		enough: make(chan struct{}),
	}
	if err := w.prepare(ctx); err != nil {
		return nil, err
	}
	b, err := startBroker(newScript(alwaysConfirm))
	if err != nil {
		return nil, err
	}
	defer b.close()
	relays, err := startFleet(dsn, k, s.lease, b, s.relays)
	if err != nil {
		return nil, err
	}
	defer relays.killAll()

	writing := make(chan error, 1)
	go func() { writing <- w.write(ctx) }()
	restarts := 0
	for range s.rounds {
		for _, p := range relays.places {
			time.Sleep(s.pause)
			if err := relays.restart(ctx, p); err != nil {
				return nil, err
			}
			restarts++
		}
	}
	close(w.enough)
	if err := <-writing; err != nil {
		return nil, err
	}
	written := time.Now()
	// Half a lease: what a relay that ended leaves behind must be free at once.
	if err := awaitDrained(ctx, db, s.lease/2); err != nil {
		return nil, err
	}
	rest := time.Since(written)
	if err := relays.terminateAll(ctx); err != nil {
		return nil, err
	}
	log := b.arrivals()
	r := &rollingReport{tally: readLog(log), Written: w.written.Load(), Restarts: restarts, Rest: rest, Troubles: relays.troubles}
	if k.name == rowsKind.name {
		r.problems = nil // no order is promised
	}
	if _, err := r.checkTable(ctx, db, log, alwaysConfirm, int(w.written.Load())); err != nil {
		return r, err
	}
	if r.Repeats > 0 {
		r.problem("%d events were published twice", r.Repeats)
	}
	if int64(r.Events) != r.Written {
		r.problem("%d events were confirmed, %d were written", r.Events, r.Written)
	}
	return r, r.err()
}

// restart ends a relay, which must go without an error, and starts another in its place.
func (f *fleet) restart(ctx context.Context, p *place) error {
	if err := p.terminate(ctx); err != nil {
		return fmt.Errorf("a relay that was told to end: %w", err)
	}
	return f.start(p)
}
