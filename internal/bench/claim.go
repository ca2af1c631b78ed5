package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// claimBatch is how many events a claim of this section asks for: few, so that
// there are many claims.
const claimBatch = 50

// claimed are the events that a round of claims begins with.
func (b *bench) claimed() load {
	due := b.due(small)
	due.events /= 2
	return due
}

// deep is how many times as many events wait in a deep backlog.
const deep = 4

// claim compares how long a claim takes in a table that holds many published and
// dead events with the same in one that holds none, claim by claim in turn; and
// with that of a deep backlog.
func (b *bench) claim(ctx context.Context) error {
	for _, k := range []*kind{aggregate, none} {
		if !b.wanted(k.text) {
			continue
		}
		empty, err := b.newClaimer(ctx, k, "empty")
		if err != nil {
			return err
		}
		defer empty.close()
		full, err := b.newClaimer(ctx, k, "full")
		if err != nil {
			return err
		}
		defer full.close()
		if err := full.box.stage(ctx, true, b.retainedRows()...); err != nil {
			return err
		}
		for round := range b.rounds {
			if err := b.claimAll(ctx, empty, full); err != nil {
				return err
			}
			b.progress("round %d  %s, %d claims", round+1, k.text, len(full.times))
		}
		b.report.Latencies = append(b.report.Latencies,
			empty.latencies(b, "claim", k.text+", empty table"),
			full.latencies(b, "claim", fmt.Sprintf("%s, %d published and %d dead", k.text, b.retained, b.retained/10)))
		b.report.add(b.limit("claim", k.text+", p99 in the full table, of the empty one", full.percentile(0.99)/empty.percentile(0.99), 1.5))
		usual := empty.percentile(0.5)
		if err := b.claimDeep(ctx, empty); err != nil {
			return err
		}
		b.report.Latencies = append(b.report.Latencies,
			empty.latencies(b, "claim", fmt.Sprintf("%s, backlog of %d instead of at most %d", k.text, deep*b.claimed().events, b.claimed().events)))
		b.report.add(b.limit("claim", k.text+", p50 with a deep backlog, of the usual one", empty.percentile(0.5)/usual, 2))
	}
	return nil
}

// retainedRows are what a full table holds: nine in ten published events, one in
// eleven of them dead.
func (b *bench) retainedRows() []load {
	return []load{
		{status: published, events: b.retained, aggregates: aggregates, prefix: "a", size: small},
		{status: dead, events: b.retained / 10, aggregates: aggregates, prefix: "a", size: small},
	}
}

// claimer claims and settles the events of a box.
type claimer struct {
	box   *box
	pool  *pool
	store outbox.Store
	owner outbox.Owner
	times []float64
}

func (b *bench) newClaimer(ctx context.Context, k *kind, purpose string) (*claimer, error) {
	box, err := newBox(ctx, b.dsn, k, purpose)
	if err != nil {
		return nil, err
	}
	p, err := openPool(box.cfg, idleConns, nil)
	if err != nil {
		box.close()
		return nil, err
	}
	return &claimer{
		box: box, pool: p, store: k.newStore(p.DB),
		owner: outbox.Owner{ID: outbox.NewEventID(), Host: "bench", PID: os.Getpid()},
	}, nil
}

func (c *claimer) close() {
	_ = c.pool.Close()
	c.box.close()
}

// claimAll fills both tables, and claims and settles one batch here, one there.
func (b *bench) claimAll(ctx context.Context, empty, full *claimer) error {
	for _, c := range []*claimer{empty, full} {
		if err := c.box.stage(ctx, c == full, b.claimed()); err != nil {
			return err
		}
		if err := c.box.present(ctx); err != nil {
			return err
		}
	}
	order := []*claimer{empty, full}
	for left := b.claimed().events; left > 0; {
		claimed := 0
		for _, c := range order {
			n, err := c.claim(ctx)
			if err != nil {
				return err
			}
			claimed = max(claimed, n)
		}
		if claimed == 0 {
			return fmt.Errorf("%d events can't be claimed", left)
		}
		left -= claimed
		slices.Reverse(order)
	}
	for _, c := range order {
		if err := c.box.withdraw(ctx); err != nil {
			return err
		}
	}
	return nil
}

// claimDeep claims some batches of a deep backlog.
func (b *bench) claimDeep(ctx context.Context, c *claimer) error {
	c.times = nil
	backlog := b.claimed()
	backlog.events *= deep
	if err := c.box.stage(ctx, false, backlog); err != nil {
		return err
	}
	if err := c.box.present(ctx); err != nil {
		return err
	}
	for range min(200, b.claimed().events/claimBatch) {
		if _, err := c.claim(ctx); err != nil {
			return err
		}
	}
	return c.box.withdraw(ctx)
}

// claim claims a batch, notes how long that took, and settles it.
func (c *claimer) claim(ctx context.Context) (events int, err error) {
	start := time.Now()
	batch, err := c.store.Claim(ctx, outbox.ClaimRequest{Owner: c.owner, Limit: claimBatch, Lease: 30 * time.Second})
	took := time.Since(start)
	if err != nil || batch == nil || len(batch.Events) == 0 {
		return 0, err
	}
	c.times = append(c.times, milliseconds(took))
	outcomes := make([]outbox.EventOutcome, len(batch.Events))
	for i := range batch.Events {
		outcomes[i] = outbox.EventOutcome{Key: batch.Events[i].Key, Kind: outbox.OutcomePublished}
	}
	settled, err := c.store.Settle(ctx, batch, outcomes)
	if err == nil && settled.Published != len(outcomes) {
		err = fmt.Errorf("%d events of %d were marked", settled.Published, len(outcomes))
	}
	return len(outcomes), err
}

func (c *claimer) percentile(part float64) float64 {
	return percentile(slices.Sorted(slices.Values(c.times)), part)
}

func (c *claimer) latencies(b *bench, section, name string) latencies {
	times := slices.Sorted(slices.Values(c.times))
	return latencies{
		Section: section, Database: string(b.flavor), Case: name, Events: len(times),
		P50: percentile(times, 0.50), P95: percentile(times, 0.95), P99: percentile(times, 0.99), Max: times[len(times)-1],
	}
}
