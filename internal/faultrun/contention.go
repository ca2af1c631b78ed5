package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/purge"
)

// contentionSettings are those of a run in which nobody may be in another's way.
type contentionSettings struct {
	writers  int
	relays   int
	duration time.Duration
}

const (
	// contentionWait is innodb_lock_wait_timeout. One writer holds its transactions
	// open for longer: who waits for it fails.
	contentionWait = 2 * time.Second
	longHold       = 3 * time.Second
	shortHold      = 100 * time.Millisecond

	// contentionLease is so long that a relay's calls, which are bounded by a part of
	// it, end by the server's lock wait timeout first.
	contentionLease = 12 * time.Second
)

// contentionReport is what a run saw. Errors are counted by who got them and by
// the server's number; all but none is too many.
type contentionReport struct {
	Committed  atomic.Int64 // transactions of writers
	RolledBack atomic.Int64 // by the writers' own choice
	Held       atomic.Int64 // committed after a while
	Published  atomic.Int64
	Dead       atomic.Int64
	Retried    atomic.Int64
	Purged     purge.Stats

	mu     sync.Mutex
	errors map[string]int
}

func (r *contentionReport) String() string {
	return fmt.Sprintf("%d transactions committed, %d of them held open, %d rolled back; %d events published, %d dead, %d retried; "+
		"%d events purged in %d passes; errors %v",
		r.Committed.Load(), r.Held.Load(), r.RolledBack.Load(), r.Published.Load(), r.Dead.Load(), r.Retried.Load(),
		r.Purged.Events, r.Purged.Passes, r.errors)
}

func (r *contentionReport) failed(db *outbox.DB, who string, err error) {
	info := db.Classify(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors[fmt.Sprintf("%s: %v %d", who, info.Fault, info.Code)]++
}

// verdict fails the run also when something that might have been in another's way
// did not happen.
func (r *contentionReport) verdict() error {
	if len(r.errors) > 0 {
		return fmt.Errorf("somebody was in another's way: %v", r.errors)
	}
	for what, n := range map[string]int64{
		"a transaction held open": r.Held.Load(), "a rollback": r.RolledBack.Load(), "a published event": r.Published.Load(),
		"a dead event": r.Dead.Load(), "a retry": r.Retried.Load(), "a purged event": r.Purged.Events,
	} {
		if n == 0 {
			return fmt.Errorf("inconclusive: the run did not have %s", what)
		}
	}
	return nil
}

// contention is a run under way. Writers, relays and the purger have a pool each.
type contention struct {
	kind   kind
	config *mysql.Config
	script *script
	report *contentionReport
}

// runContention runs writers, relays and a purger at once for a while. The database
// has the outbox's tables.
func runContention(ctx context.Context, k kind, dsn string, s contentionSettings) (*contentionReport, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("the DSN is not one of go-sql-driver/mysql")
	}
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params["innodb_lock_wait_timeout"] = fmt.Sprint(int(contentionWait.Seconds()))
	c := &contention{kind: k, config: cfg, script: newScript(fateOf), report: &contentionReport{errors: map[string]int{}}}
	db, err := mysqldb.OpenConfig(cfg)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	db.SetMaxIdleConns(s.writers)

	relaying, stopRelays := context.WithCancel(ctx)
	defer stopRelays()
	var relays sync.WaitGroup
	for range s.relays {
		if err := c.startRelay(relaying, &relays); err != nil {
			return nil, err
		}
	}
	purging, stopPurger := context.WithCancel(ctx)
	defer stopPurger()
	var purger sync.WaitGroup
	if err := c.startPurger(purging, &purger); err != nil {
		return nil, err
	}

	writing, stopWriters := context.WithTimeout(ctx, s.duration)
	defer stopWriters()
	var writers sync.WaitGroup
	for i := range s.writers {
		writers.Go(func() { c.write(ctx, writing.Done(), db, i) })
	}
	writers.Go(func() { c.age(ctx, writing.Done(), db) })
	writers.Wait()
	stopPurger()
	purger.Wait()
	stopRelays()
	relays.Wait()
	return c.report, c.report.verdict()
}

func (c *contention) startRelay(ctx context.Context, running *sync.WaitGroup) error {
	db, err := mysqldb.OpenConfig(c.config)
	if err != nil {
		return err
	}
	cfg := relayConfig(contentionLease)
	cfg.Observer = &outbox.Observer{
		Settled: func(s outbox.Settled) {
			c.report.Published.Add(int64(s.Published))
			c.report.Dead.Add(int64(s.Dead))
			c.report.Retried.Add(int64(s.Retried))
		},
		StoreFailed: func(f outbox.StoreFailed) { c.report.failed(db, "relay's "+f.Call, f.Error) },
	}
	relay, err := outbox.NewRelay(c.kind.newStore(db), scripted{c.script}, cfg)
	if err != nil {
		return err
	}
	running.Go(func() {
		defer db.Close()
		_ = relay.Run(ctx)
	})
	return nil
}

// scripted is a broker in this process.
type scripted struct{ *script }

func (s scripted) Publish(_ context.Context, messages []outbox.Envelope) []error {
	time.Sleep(2 * time.Millisecond) // what a broker takes
	results := make([]error, len(messages))
	held := map[string]bool{}
	for i := range messages {
		id := messages[i].AggregateID
		if held[id] {
			results[i] = outbox.PublishHeldBack(errEarlier)
			continue
		}
		results[i] = resultOf(s.answer(messages[i].ID))
		held[id] = results[i] != nil && outbox.FailureKindOf(results[i]) != outbox.FailureRejected
	}
	return results
}

func (c *contention) startPurger(ctx context.Context, running *sync.WaitGroup) error {
	db, err := mysqldb.OpenConfig(c.config)
	if err != nil {
		return err
	}
	purger, err := c.kind.newPurger(db, &purge.Config{
		Interval: 100 * time.Millisecond, BatchSize: 50,
		Logger: slog.New(slog.DiscardHandler),
		Observer: func(p purge.Pass, err error) {
			if err != nil {
				c.report.failed(db, "purger", err)
			}
			if p.Deferred > 0 { // a deadlock or a lock wait that it has put up with
				c.report.mu.Lock()
				c.report.errors["purger: deferred"] += int(p.Deferred)
				c.report.mu.Unlock()
			}
		},
	})
	if err != nil {
		return err
	}
	running.Go(func() {
		defer db.Close()
		_ = purger.Run(ctx)
		c.report.Purged = purger.Stats()
	})
	return nil
}
