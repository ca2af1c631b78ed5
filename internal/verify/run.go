package verify

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/record"
)

// tries is how often an experiment that shows nothing is run, each time with another seed.
const tries = 3

// seedStep is between the seeds of an experiment's tries.
const seedStep = 1_000_000_007

// ErrFailed is returned by a run in which something failed, or showed nothing.
var ErrFailed = errors.New("the verification failed")

// run is one call of Run.
type run struct {
	Config
	world *world
	lanes []*lane

	mu       sync.Mutex
	began    time.Time
	planned  int
	record   record.Record
	coverage *record.Coverage
	rows     map[row]int // hits
	done     int
	retried  int
	failed   int
	told     time.Time
}

// Run runs the experiments, says how it goes, and writes the record. It returns ErrFailed
// when an invariant was broken, an experiment showed nothing or a valid cell stayed empty.
func Run(ctx context.Context, cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	plan := cfg.Plan()
	if len(plan) == 0 {
		return fmt.Errorf("nothing to run: %q matches no experiment", cfg.Only)
	}
	r := &run{Config: cfg, began: time.Now(), planned: len(plan), coverage: cfg.coverage(), rows: map[row]int{}}
	r.say("%d experiments, %d at a time", len(plan), cfg.Lanes)
	if r.world, err = startWorld(ctx, plan, func(line string) { r.say("%s", line) }); err != nil {
		return err
	}
	defer r.world.close()
	r.say("servers are up after %.1fs", time.Since(r.began).Seconds())
	for i := range min(cfg.Lanes, len(plan)) {
		r.lanes = append(r.lanes, &lane{world: r.world, number: i, databases: map[dbserver.Flavor]*database{}, dir: cfg.Dir})
	}
	r.record.StartedAt = r.began.UTC().Truncate(time.Second)
	r.record.Versions = record.BuildVersions() // the working copy may change while it runs
	var alone, rounds []Experiment
	for _, e := range plan {
		if e.Outcome == record.OutcomePeerKilled {
			rounds = append(rounds, e)
		} else {
			alone = append(alone, e)
		}
	}
	r.runAlone(ctx, alone)
	r.runRounds(ctx, rounds)
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.finish(ctx)
}

// runAlone runs experiments that don't disturb each other.
func (r *run) runAlone(ctx context.Context, plan []Experiment) {
	queue := make(chan Experiment)
	var working sync.WaitGroup
	for _, l := range r.lanes {
		working.Go(func() {
			for e := range queue {
				for try := 1; ctx.Err() == nil; try++ {
					if res := l.run(ctx, e, nil); ctx.Err() != nil || r.note(res, try == tries) {
						break
					}
					e.Seed += seedStep
				}
			}
		})
	}
	for _, e := range plan {
		select {
		case queue <- e:
		case <-ctx.Done():
		}
	}
	close(queue)
	working.Wait()
}

// runRounds runs experiments that kill a server, those of the same one together.
func (r *run) runRounds(ctx context.Context, plan []Experiment) {
	for try := 1; len(plan) > 0 && ctx.Err() == nil; try++ {
		byPeer := map[string][]Experiment{}
		var peers []string
		for _, e := range plan {
			if byPeer[e.peer()] == nil {
				peers = append(peers, e.peer())
			}
			byPeer[e.peer()] = append(byPeer[e.peer()], e)
		}
		plan = nil
		for _, peer := range peers {
			for all := byPeer[peer]; len(all) > 0 && ctx.Err() == nil; {
				n := min(len(all), len(r.lanes))
				plan = append(plan, r.runRound(ctx, all[:n], try == tries)...)
				all = all[n:]
			}
		}
	}
}

// runRound returns what is to be tried again.
func (r *run) runRound(ctx context.Context, plan []Experiment, last bool) (again []Experiment) {
	kills := newRound(len(plan), r.world.strike(plan[0]))
	var mu sync.Mutex
	var working sync.WaitGroup
	for i, e := range plan {
		working.Go(func() {
			result := r.lanes[i].run(ctx, e, kills)
			if result.err != nil {
				kills.leave(ctx)
			}
			if ctx.Err() == nil && !r.note(result, last) {
				e.Seed += seedStep
				mu.Lock()
				defer mu.Unlock()
				again = append(again, e)
			}
		})
	}
	working.Wait()
	return again
}

// note adds a result up. It reports false when the experiment is to be tried again.
func (r *run) note(res result, last bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	outcome := res.result()
	if outcome == record.Inconclusive && !last {
		r.retried++
		return false
	}
	r.done++
	r.record.Schedules++
	if res.verdicts != nil {
		r.record.Counts.Add(record.CountsOf(res.history))
		r.record.AddVerdicts(res.verdicts)
	}
	if res.err == nil && len(res.missing) == 0 && res.Outcome != outcomeError {
		r.rows[row{res.Point, res.Outcome}]++
		cell := record.Cell{Point: res.Point, Outcome: res.Outcome, Database: string(res.Database), Broker: res.Broker}
		if err := r.coverage.Add(cell, 1); err != nil {
			r.record.Inconclusive = append(r.record.Inconclusive, err.Error())
		}
	}
	if required, ok := record.RequiredInjection(res.Injection); ok {
		r.record.Injections = append(r.record.Injections, record.Injection{
			ID: required.ID, Title: required.Title, Point: string(res.Point), Outcome: res.Outcome,
			Database: string(res.Database), Broker: res.Broker, Event: res.subject,
			Expected: required.Expected, Observed: res.observed, Result: outcome,
		})
	}
	if outcome != record.Pass {
		r.failed++
		r.complain(res, outcome)
	}
	if time.Since(r.told) > 10*time.Second || r.done == r.planned {
		r.told = time.Now()
		took := time.Since(r.began)
		r.say("%4d of %d, %d not passed, %d tried again, %v, %.2f a second", r.done, r.planned, r.failed, r.retried,
			took.Round(time.Second), float64(r.done)/took.Seconds())
	}
	return true
}

// complain tells a person all about a result, and how to have it again.
func (r *run) complain(res result, outcome record.Result) {
	r.say("%s %s, seed %d, after %v", outcome, res.ident(), res.Seed, res.took.Round(time.Millisecond))
	if res.err != nil {
		r.say("  %v", res.err)
	}
	for _, what := range res.missing {
		r.say("  %s", what)
	}
	for _, v := range history.Failed(res.verdicts) {
		r.say("  %s %s", v.Invariant, v.Claim)
		for _, line := range v.Evidence {
			r.say("    %s", line)
		}
	}
	r.say("  again: %s", res.command())
	if outcome == record.Inconclusive {
		r.record.Inconclusive = append(r.record.Inconclusive, res.ident()+" showed nothing")
	}
}

// command runs an experiment again.
func (e Experiment) command() string {
	only := string(e.Point) + "/" + e.Outcome
	if e.Injection != "" {
		only = e.Injection
	}
	return fmt.Sprintf("go run ./internal/verify/cmd/verify -only '%s' -db %s -broker %s -seed %d", only, string(e.Database), e.Broker, e.Seed)
}

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.Out, "verify: "+format+"\n", args...) }
