package purge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outboxgen/outboxgen/runtime/internal/leasing"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

var readCommitted = leasing.Isolation

const (
	eventTask = "purge-events"

	// keepRelays is how long the row of a relay's run stays at least: people ask
	// which process it was, also where events are deleted at once.
	keepRelays = 7 * 24 * time.Hour

	// parallel is how many lanes are purged at once: as many as a relay has batches
	// in flight by default, or it would leave the purger behind.
	parallel = 4

	// eventsAgain is how often events are looked at from the start, at most.
	eventsAgain = 10 * time.Minute
)

// NewEvents returns a purger of an outbox. It deletes the events that were
// published longer than keep ago, with what outbox_failure has of them, and the
// rows of relays' runs that ended longer than keep, and at least a week, ago. With a
// keep of 0, which is for an outbox that deletes events when they are published, it
// deletes only the latter. Events that wait, and dead ones, are never deleted.
//
// lanes is how many lanes the outbox has: 0 where relays lease rows.
func NewEvents(db *outbox.DB, q EventQueries, keep time.Duration, lanes int, cfg *Config) (*Purger, error) {
	switch {
	case keep < 0:
		return nil, errors.New("purge: keep is negative")
	case lanes < 0 || lanes > math.MaxUint16:
		return nil, errors.New("purge: there is no such number of lanes")
	}
	p, err := newPurger(db, q, eventTask, cfg)
	if err != nil {
		return nil, err
	}
	p.newWork = func() work {
		e := &events{
			queries:      q,
			keepUs:       micros(keep),
			keepRelaysUs: micros(max(keep, keepRelays)),
			batch:        p.cfg.BatchSize,
			again:        again{every: eventsAgain},
		}
		if keep > 0 {
			e.lanes = make([]lane, max(1, lanes))
		}
		return e
	}
	return p, nil
}

// events is the work on an outbox. The published events of each lane, or all of
// them where rows are leased, are read in the order of the index from a cursor on:
// what is behind it was deleted, and its index entries, which stay for a while as
// marked, are not waded through again.
type events struct {
	queries      EventQueries
	keepUs       int64
	keepRelaysUs int64
	batch        int
	lanes        []lane
	again        again
}

func (e *events) purge(ctx context.Context, p *pass) error {
	for i := range e.lanes {
		e.lanes[i].done = false
	}
	for more := true; more; {
		if e.again.due() {
			if err := e.purgeRelays(ctx, p); err != nil {
				return err
			}
			for i := range e.lanes {
				e.lanes[i] = lane{number: uint16(i), limit: e.batch, again: true}
			}
			e.again.begin()
		}
		var err error
		if more, err = e.round(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// round deletes a batch of each lane that may have more, so that a full one doesn't
// make the others wait, and reports whether there was any.
func (e *events) round(ctx context.Context, p *pass) (more bool, err error) {
	var todo []*lane
	for i := range e.lanes {
		if !e.lanes[i].done {
			todo = append(todo, &e.lanes[i])
		}
	}
	var workers sync.WaitGroup
	var next atomic.Int64
	errs := make(chan error, parallel)
	for range min(parallel, len(todo)) {
		workers.Go(func() {
			for i := next.Add(1); int(i) <= len(todo); i = next.Add(1) {
				if err := e.purgeBatch(ctx, p, todo[i-1]); err != nil {
					next.Store(int64(len(todo))) // nor does another one begin
					errs <- err
					return
				}
			}
		})
	}
	workers.Wait()
	close(errs)
	return len(todo) > 0, <-errs
}

func (e *events) purgeBatch(ctx context.Context, p *pass, l *lane) error {
	if err := p.next(ctx); err != nil {
		return err
	}
	begun := time.Now()
	rows, err := e.queries.SelectPurgeable(p.grace, p.db, SelectPurgeableParams{
		KeepUs: e.keepUs, Lane: l.number, FromUs: l.from, Limit: int32(l.limit),
	})
	if err != nil {
		return fmt.Errorf("select published events: %w", err)
	}
	var old []string
	for _, row := range rows {
		if row.Purgeable != 0 {
			old = append(old, row.EventID)
		}
	}
	if l.again && (l.from == 0 || len(old) == 0) {
		e.again.spend(time.Since(begun))
	}
	deleted := 0
	for ids := range slices.Chunk(old, e.batch) {
		n, err := e.delete(p, ids)
		if err != nil {
			return err
		}
		deleted += int(n)
	}
	l.advance(rows, deleted, e.batch)
	return nil
}

// delete deletes events and what is kept of their errors. If other rows than those
// asked for are gone, another purger was faster.
func (e *events) delete(p *pass, ids []string) (int64, error) {
	var n int64
	done, err := p.inTx(func(tx *outbox.Tx) error {
		var err error
		n, err = e.queries.DeletePublished(p.grace, tx, DeletePublishedParams{EventIds: ids, KeepUs: e.keepUs})
		if err != nil {
			return fmt.Errorf("delete published events: %w", err)
		}
		if err := e.queries.DeleteFailures(p.grace, tx, DeleteFailuresParams{EventIds: ids}); err != nil {
			return fmt.Errorf("delete failures: %w", err)
		}
		return nil
	})
	if !done {
		return 0, err
	}
	p.add(Purged{Events: n})
	return n, nil
}

func (e *events) purgeRelays(ctx context.Context, p *pass) error {
	for {
		if err := p.next(ctx); err != nil {
			return err
		}
		owners, err := e.queries.SelectOldRelays(p.grace, p.db, SelectOldRelaysParams{
			KeepUs: e.keepRelaysUs, Limit: int32(e.batch),
		})
		if err != nil {
			return fmt.Errorf("select old relays: %w", err)
		}
		if len(owners) == 0 {
			return nil
		}
		var n int64
		done, err := p.inTx(func(tx *outbox.Tx) error {
			var err error
			n, err = e.queries.DeleteRelays(p.grace, tx, DeleteRelaysParams{Owners: owners, KeepUs: e.keepRelaysUs})
			return err
		})
		if err != nil {
			return fmt.Errorf("delete old relays: %w", err)
		}
		if done {
			p.add(Purged{Relays: n})
		}
		if n == 0 || len(owners) < e.batch {
			return nil
		}
	}
}
