package main

import (
	"context"
	"fmt"
	"time"
)

// due are the events that a drain begins with.
func (b *bench) due(size int) load {
	return load{status: pending, events: b.events, aggregates: aggregates, prefix: "a", size: size}
}

// drainSide lets relays drain b.events events.
func (b *bench) drainSide(box *box, size int, c crew) func(context.Context) (sample, error) {
	return b.loadSide(box, c, b.due(size))
}

// loadSide lets relays drain a load.
func (b *bench) loadSide(box *box, c crew, l load) func(context.Context) (sample, error) {
	return func(ctx context.Context) (sample, error) {
		if err := box.stage(ctx, false, l); err != nil {
			return sample{}, err
		}
		return b.drainRate(ctx, box, c, l.events)
	}
}

// drainRate lets relays drain so many staged events.
func (b *bench) drainRate(ctx context.Context, box *box, c crew, events int) (sample, error) {
	if c.batch == 0 {
		c.batch = b.batch
	}
	c.maxBatches, c.idle, c.server = b.maxBatches, b.idle, b.process
	if b.statements {
		c.meter = newMeter()
	}
	d, err := box.drain(ctx, c, events)
	if err != nil {
		return sample{}, err
	}
	if d.lost > 0 {
		return sample{}, fmt.Errorf("%d events lost their lease", d.lost)
	}
	if b.statements {
		c.meter.print(b.out, fmt.Sprintf("%d relays in %v: %d batches, %.1f in flight, %.1f round trips each, %d connections",
			c.relays, d.took.Round(time.Millisecond), d.batches, d.inFlight, float64(c.meter.roundTrips())/float64(d.batches), d.connects))
	}
	return rate(events, d.took, d.cpu), nil
}

func rate(events int, took, cpu time.Duration) sample {
	return sample{value: float64(events) / took.Seconds(), cpu: cpu / time.Duration(events)}
}

// bareSide drains b.events events with a bare loop.
func (b *bench) bareSide(box *box, size, batch int, run bareRun) func(context.Context) (sample, error) {
	return func(ctx context.Context) (sample, error) {
		if err := box.stage(ctx, false, b.due(size)); err != nil {
			return sample{}, err
		}
		return b.bareRate(ctx, box, batch, b.events, run)
	}
}

// bareRun is a way to drain without a relay; it returns how many events it marked.
type bareRun func(bareLoop, context.Context) (int, error)

// bareRate drains so many staged events with a bare loop.
func (b *bench) bareRate(ctx context.Context, box *box, batch, events int, run bareRun) (sample, error) {
	var m *meter
	if b.statements {
		m = newMeter()
		defer m.print(b.out, "the bare loop")
	}
	p, err := openPool(box.cfg, idleConns, m)
	if err != nil {
		return sample{}, err
	}
	defer p.Close()
	if err := p.PingContext(ctx); err != nil {
		return sample{}, err
	}
	cpu, start := cpuTime(b.process), time.Now()
	if err := box.present(ctx); err != nil {
		return sample{}, err
	}
	n, err := run(bareLoop{db: p.DB.DB, kind: box.kind, s: box.statements, batch: batch}, ctx)
	took := time.Since(start)
	cpu = cpuTime(b.process) - cpu
	if err == nil && n != events {
		err = fmt.Errorf("%d events of %d were marked", n, events)
	}
	if end := box.withdraw(context.WithoutCancel(ctx)); err == nil {
		err = end
	}
	return rate(events, took, cpu), err
}
