package main

import (
	"context"
	"fmt"
	"time"
)

// The drain section's sizes of payload, in bytes.
const (
	small = 300
	large = 4096
)

// aggregates that the events belong to, unless it is about one of them.
const aggregates = 5000

// drain compares how fast a relay drains an outbox: of both orderings, beside bare
// loops of their statements, with a large payload, and with a second relay.
func (b *bench) drain(ctx context.Context) error {
	sides := map[string]*side{}
	var order []*side
	add := func(name string, run func(context.Context) (float64, error)) {
		s := &side{name: name, run: run}
		sides[name] = s
		order = append(order, s)
	}
	for _, k := range []*kind{aggregate, none} {
		box, err := newBox(ctx, b.dsn, k, "drain")
		if err != nil {
			return err
		}
		defer box.close()
		add(k.text+", relay", b.drainSide(box, small, crew{relays: 1}))
		add(k.text+", bare loop", b.bareSide(box, small))
		add(k.text+", two relays", b.drainSide(box, small, crew{relays: 2}))
		add(k.text+", relay, 4 KB", b.drainSide(box, large, crew{relays: 1}))
	}
	if err := b.contest(ctx, "events/s", order...); err != nil {
		return err
	}
	for _, s := range order {
		b.result("drain", s, "events/s")
	}
	ratio := func(x, y string) float64 { return sides[x].value() / sides[y].value() }
	b.atLeast("drain", "ordering: aggregate, of ordering: none",
		ratio(aggregate.text+", relay", none.text+", relay"), map[string]float64{"mysql": 1.3, "mariadb": 1.1}[string(b.flavor)])
	for _, k := range []*kind{aggregate, none} {
		b.atLeast("drain", k.text+", of the bare loop of its statements", ratio(k.text+", relay", k.text+", bare loop"), 0.9)
		b.atLeast("drain", k.text+", 4 KB of 300 B", ratio(k.text+", relay, 4 KB", k.text+", relay"), 0.5)
		b.atLeast("drain", k.text+", two relays of one", ratio(k.text+", two relays", k.text+", relay"), 1.15)
	}
	return nil
}

func (b *bench) due(size int) load {
	return load{status: pending, events: b.events, aggregates: aggregates, prefix: "a", size: size}
}

// drainSide lets relays drain b.events events.
func (b *bench) drainSide(box *box, size int, c crew) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		if err := box.stage(ctx, false, b.due(size)); err != nil {
			return 0, err
		}
		return b.rateOf(ctx, box, c, b.events)
	}
}

// rateOf lets relays drain so many staged events.
func (b *bench) rateOf(ctx context.Context, box *box, c crew, events int) (float64, error) {
	if c.batch == 0 {
		c.batch = b.batch
	}
	if c.maxBatches == 0 {
		c.maxBatches = b.maxBatches
	}
	c.idle = b.idle
	if b.statements {
		c.meter = newMeter()
	}
	d, err := box.drain(ctx, c, events)
	if err != nil {
		return 0, err
	}
	if d.lost > 0 {
		return 0, fmt.Errorf("%d events lost their lease", d.lost)
	}
	if b.statements {
		c.meter.print(b.out, fmt.Sprintf("%d relays, %d batches, %d connections made, %v", c.relays, d.batches, d.connects, d.took))
	}
	return float64(events) / d.took.Seconds(), nil
}

// bareSide drains b.events events with a bare loop.
func (b *bench) bareSide(box *box, size int) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		if err := box.stage(ctx, false, b.due(size)); err != nil {
			return 0, err
		}
		return b.bareRate(ctx, box, b.batch, func(l bareLoop) (int, error) {
			if box.kind.byLane {
				return l.leaseLanes(ctx)
			}
			return l.leaseRows(ctx)
		})
	}
}

func (b *bench) bareRate(ctx context.Context, box *box, batch int, run func(bareLoop) (int, error)) (float64, error) {
	var m *meter
	if b.statements {
		m = newMeter()
	}
	p, err := openPool(box.cfg, 0, m)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	if err := p.PingContext(ctx); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := box.present(ctx); err != nil {
		return 0, err
	}
	n, err := run(bareLoop{db: p.DB.DB, s: box.statements, batch: batch})
	took := time.Since(start)
	if err == nil && n != b.events {
		err = fmt.Errorf("%d events of %d were marked", n, b.events)
	}
	if m != nil {
		m.print(b.out, "the bare loop")
	}
	if end := box.withdraw(context.WithoutCancel(ctx)); err == nil {
		err = end
	}
	return float64(b.events) / took.Seconds(), err
}
