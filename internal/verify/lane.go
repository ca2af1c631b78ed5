package verify

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/record"
)

// lane runs experiments one after the other, with a schema of its own on each database.
type lane struct {
	world     *world
	number    int
	databases map[dbserver.Flavor]*database
	dir       string // for logs
}

// result is what became of an experiment.
type result struct {
	Experiment
	history  history.History
	verdicts []history.Verdict
	missing  []string // what it did not show
	err      error    // that kept it from its end
	subject  record.Event
	observed []string
	took     time.Duration
}

func (r result) result() record.Result {
	switch {
	case errors.Is(r.err, errNotHit):
		return record.Inconclusive
	case r.err != nil, len(history.Failed(r.verdicts)) > 0:
		return record.Fail
	case len(r.missing) > 0:
		return record.Inconclusive
	default:
		return record.Pass
	}
}

var placeNumber atomic.Int64

// run runs one experiment. kills is for one that kills a peer.
func (l *lane) run(ctx context.Context, e Experiment, kills *round) result {
	began := time.Now()
	r := result{Experiment: e}
	s, err := l.stage(ctx, e)
	if err != nil {
		err = fmt.Errorf("%w: it could not be prepared: %w", errNotHit, err)
	} else {
		s.kills = kills
		r.history, err = s.run(ctx)
		s.abandon()
		if err == nil {
			r.verdicts, r.missing = history.Check(r.history), s.inconclusive(r.history)
			r.subject, r.observed = s.subject(r.history), observed(r.history)
			err = s.late
		}
		r.err = err
		if r.result() != record.Pass && l.dir != "" {
			err = errors.Join(err, s.keepLogs(l.dir))
		}
		_ = s.broker.remove(ctx, s.place) // at worst it stays: nobody else uses its names
	}
	r.err, r.took = err, time.Since(began)
	return r
}

// stage makes everything ready.
func (l *lane) stage(ctx context.Context, e Experiment) (*stage, error) {
	d := l.databases[e.Database]
	if d == nil {
		var err error
		if d, err = createDatabase(ctx, l.world.databases[e.Database], fmt.Sprintf("verify_%d", l.number)); err != nil {
			return nil, err
		}
		l.databases[e.Database] = d
	}
	if err := d.empty(ctx); err != nil {
		return nil, err
	}
	broker := l.world.brokers[e.Broker]
	s := &stage{
		Experiment: e, choice: e.choose(), db: d, broker: broker,
		place: place{Broker: e.Broker, Addr: broker.addr(), Name: fmt.Sprintf("verify%d", placeNumber.Add(1))},
		now:   map[string]*process{}, count: map[string]int{},
	}
	if err := broker.ensure(ctx, s.place); err != nil {
		return nil, fmt.Errorf("prepare the broker: %w", err)
	}
	var err error
	if s.inject, err = newInjection(s); err != nil {
		return nil, err
	}
	return s, nil
}
