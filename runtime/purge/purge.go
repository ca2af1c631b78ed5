// Package purge deletes what is old: published events, the rows of relays' runs
// that ended, the dedup rows of consumers and their counts of failed attempts. It is made to run for years beside
// writers, relays and consumers at full load.
//
// A row is found by a plain read, which locks nothing, and deleted by its primary
// key in a short transaction at READ COMMITTED, under a condition that compares by
// the database's clock. So two purgers at once do no harm, nor does one that was
// stopped for an hour and goes on, and nobody waits for more than a batch.
package purge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Purger deletes rows that are old. Any number of processes can run one: one of
// them is elected, the others stand by. Make one with [NewEvents] or [NewDedup].
type Purger struct {
	db      *outbox.DB
	tasks   TaskQueries
	task    string
	newWork func() work // with nothing looked at yet
	cfg     Config
	stats   counters
}

// work is what there is to purge, and how far it has been looked through.
type work interface {
	// purge deletes what is old, in batches, until it finds no full one. It asks
	// p.next before each.
	purge(ctx context.Context, p *pass) error
}

// Purged is what a purger deleted.
type Purged struct {
	Events   int64 // published events
	Relays   int64 // rows of relays' runs
	Consumed int64 // dedup rows
	Failed   int64 // counts of failed attempts, one for an event and consumer

	// Deferred counts the batches that met a row locked for long, or a deadlock.
	// They are tried again later.
	Deferred int64
}

// Pass is one look at what there is to purge.
type Pass struct {
	Purged

	// Elected is false when another purger is, and this one did nothing.
	Elected bool

	Took time.Duration
}

func newPurger(db *outbox.DB, tasks TaskQueries, task string, cfg *Config) (*Purger, error) {
	if db == nil || tasks == nil {
		return nil, errors.New("purge: a database and its queries are needed")
	}
	p := &Purger{db: db, tasks: tasks, task: task, cfg: cfg.withDefaults()}
	return p, p.cfg.validate()
}

// Run purges until ctx ends, then finishes the batch that it is at, gives the task
// up and returns nil. Errors of the database don't end it: it waits, longer each
// time up to a minute, and goes on. Each run has a name of its own in the election.
func (p *Purger) Run(ctx context.Context) error {
	r, end := p.newRun(ctx)
	defer end()
	r.log.Info("purge started", "interval", p.cfg.Interval, "batch", p.cfg.BatchSize)
	for failures := 0; ; {
		_, err := r.pass(ctx)
		wait := p.cfg.Interval
		switch {
		case ctx.Err() != nil:
		case err != nil:
			failures++
			wait = backoff(min(firstBackoff, p.cfg.Interval), maxBackoff, failures)
			r.trouble.warn("purge failed; it goes on when it can", "failed", failures, "error", err)
		default:
			failures = 0
			r.trouble.over("purge works again")
		}
		if !sleep(ctx, wait) {
			r.log.Info("purge stopped")
			return nil
		}
	}
}

// Purge makes one pass over everything and gives the task up: for a cron job. A
// process that purges again and again should Run, which remembers how far it has
// looked. With an error, ctx's among them, comes what was deleted before it.
func (p *Purger) Purge(ctx context.Context) (Pass, error) {
	r, end := p.newRun(ctx)
	defer end()
	return r.pass(ctx)
}

// run is one run of a purger.
type run struct {
	*Purger
	election election
	work     work
	grace    context.Context // for the database's calls: ends some time after the run's context
	log      *slog.Logger
	trouble  warner
	locked   warner
	panicked warner
}

// stopTime is how long a batch may go on after a stop. A statement that is cut off
// costs its connection, and the server may go on with it all the same.
const stopTime = 5 * time.Second

func (p *Purger) newRun(ctx context.Context) (*run, func()) {
	grace, endGrace := graceAfter(ctx, stopTime)
	holder := outbox.NewEventID().String()
	log := p.cfg.Logger.With("task", p.task, "purger", holder)
	r := &run{
		Purger:   p,
		election: election{Purger: p, holder: holder, log: log},
		work:     p.newWork(),
		grace:    grace,
		log:      log,
		trouble:  warner{log: log},
		locked:   warner{log: log},
		panicked: warner{log: log},
	}
	return r, func() {
		if err := r.election.end(grace); err != nil {
			log.Warn("purge could not give its task up; another purger waits for the end of its hold", "error", err)
		}
		endGrace()
	}
}

// pass is a pass under way. Several batches may be.
type pass struct {
	*run
	Pass

	mu      sync.Mutex // for the election and what follows
	batches int
}

func (r *run) pass(ctx context.Context) (Pass, error) {
	if err := ctx.Err(); err != nil {
		return Pass{}, err
	}
	p := &pass{run: r}
	begun := time.Now()
	err := r.election.renew(r.grace)
	if err == nil {
		p.Elected = true
		err = r.work.purge(ctx, p)
	}
	p.Took = time.Since(begun)
	if errors.Is(err, errNotElected) {
		return p.Pass, nil
	}
	if p.Deferred > 0 {
		r.locked.warn("purge met locked rows and left them for later", "batches", p.Deferred)
	}
	failed := err
	if ctx.Err() != nil {
		failed = nil // it was stopped
	}
	r.stats.passed(failed)
	r.observe(p.Pass, failed)
	return p.Pass, err
}

// observe calls the observer and survives its panic.
func (r *run) observe(p Pass, err error) {
	if r.cfg.Observer == nil {
		return
	}
	defer func() {
		if value := recover(); value != nil { // which may hold anything; its type and the stack don't
			r.panicked.warn("the purge's observer panicked", "type", fmt.Sprintf("%T", value), "stack", string(debug.Stack()))
		}
	}()
	r.cfg.Observer(p, err)
}

// next waits until the next batch may begin. It returns an error when there should
// be none.
func (p *pass) next(ctx context.Context) error {
	if p.cfg.Pause > 0 && !p.first() {
		sleep(ctx, p.cfg.Pause)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.election.keep(p.grace)
}

// first reports whether the pass has had no batch.
func (p *pass) first() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.batches++
	return p.batches == 1
}

// inTx runs a batch in a transaction and reports whether it was committed. It was
// not, and that is no error, when another transaction is in its way: InnoDB has
// then undone the batch, and it has time.
func (p *pass) inTx(fn func(tx *outbox.Tx) error) (bool, error) {
	_, err := outbox.InTxWith(fault.In(p.grace, fault.Other), p.db, readCommitted, fn)
	if err == nil {
		return true, nil
	}
	switch p.db.Classify(err).Fault {
	case outbox.FaultDeadlock, outbox.FaultLockTimeout:
		p.add(Purged{Deferred: 1})
		return false, nil
	default:
		return false, err
	}
}

// add counts what was deleted.
func (p *pass) add(n Purged) {
	p.mu.Lock()
	p.Purged.add(n)
	p.mu.Unlock()
	p.stats.add(n)
}

func (p *Purged) add(n Purged) {
	p.Events += n.Events
	p.Relays += n.Relays
	p.Consumed += n.Consumed
	p.Failed += n.Failed
	p.Deferred += n.Deferred
}
