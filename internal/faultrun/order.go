package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// orderSettings are those of a run that looks at the order under faults.
type orderSettings struct {
	aggregates int
	events     int // of each aggregate
	writers    int
	rate       int // events written a second; 0 for as many as can be
	relays     int
	lease      time.Duration
	drain      time.Duration // how long the rest may take when all is written
	seed       uint64
}

// orderReport is what a run saw.
type orderReport struct {
	*tally
	Written    int64
	Dead       int
	Kills      int
	Restarts   int
	Stops      int // past the lease
	LostLeases int // events
	Troubles   map[string]int
	Took       time.Duration
}

func (r *orderReport) String() string {
	return fmt.Sprintf("%d written, %d confirmed, %d repeats, %d dead; answers: %d rejected, %d failed, %d lost, %d after the event's end; "+
		"%d kills, %d restarts, %d stops past the lease, %d events of lost leases, troubles %v; %v",
		r.Written, r.Events, r.Repeats, r.Dead, r.Rejected, r.Failed, r.Lost, r.AfterEnd,
		r.Kills, r.Restarts, r.Stops, r.LostLeases, r.Troubles, r.Took.Round(time.Second/10))
}

// runOrder writes events on aggregates while relays are killed and stopped, and
// checks what arrived at the broker. The database has the outbox's tables.
func runOrder(ctx context.Context, db *outbox.DB, dsn string, s orderSettings) (*orderReport, error) {
	begun := time.Now()
	w := &workload{
		db: db, kind: lanesKind, seed: s.seed, aggregates: s.aggregates, events: s.events,
		writers: s.writers, rate: s.rate,
	}
	if err := w.prepare(ctx); err != nil {
		return nil, err
	}
	b, err := startBroker(newScript(fateOf))
	if err != nil {
		return nil, err
	}
	defer b.close()
	relays, err := startFleet(dsn, lanesKind, s.lease, b, s.relays)
	if err != nil {
		return nil, err
	}
	defer relays.killAll()

	f := startFaults(relays)
	err = w.write(ctx)
	if faultErr := f.end(); err == nil {
		err = faultErr
	}
	if err == nil {
		err = awaitDrained(ctx, db, s.drain)
	}
	if err == nil {
		err = relays.terminateAll(ctx)
	}

	log := b.arrivals()
	r := &orderReport{
		tally: readLog(log), Written: w.written.Load(), Kills: f.kills, Restarts: f.restarts, Stops: f.stops,
		LostLeases: relays.lost, Troubles: relays.troubles,
	}
	if err == nil {
		r.Dead, err = r.checkTable(ctx, db, log, fateOf, s.aggregates*s.events)
	}
	r.Took = time.Since(begun)
	return r, errors.Join(err, r.verdict())
}

func (r *orderReport) verdict() error {
	if err := r.err(); err != nil {
		return err
	}
	var missing []string
	for _, needed := range []struct {
		what string
		n    int
	}{
		{"a kill", r.Kills},
		{"a stop past a lease", r.Stops},
		{"a lost lease or a repeat", r.LostLeases + r.Repeats},
		{"a rejected event", r.Rejected},
		{"a failed event", r.Failed},
		{"a lost reply", r.Lost},
		{"a dead event", r.Dead},
	} {
		if needed.n == 0 {
			missing = append(missing, needed.what)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("inconclusive: the run did not have %s", strings.Join(missing, ", "))
	}
	return nil
}
