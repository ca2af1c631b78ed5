package main

import (
	"context"
	"fmt"
	"slices"
)

// point is what the general table varies.
type point struct {
	size     int // bytes of payload
	retained int // rows beside the due ones
	relays   int // 0 is a bare loop
	nats     bool
	rate     int // events a second; 0 is a drain
}

func (p point) String() string {
	how := fmt.Sprintf("%d relays, confirms at once", p.relays)
	switch {
	case p.relays == 0:
		how = "bare loop"
	case p.nats:
		how = fmt.Sprintf("%d relays, NATS JetStream", p.relays)
	}
	return fmt.Sprintf("%d B, %d retained, %s", p.size, p.retained, how)
}

// The values of the general table.
var (
	sizes      = []int{512, 4096, 16384}
	relayCount = []int{1, 2, 4, 0}
	rates      = []int{50, 200, 1000}
)

// points are all of the table, or those that differ from the first in one thing.
func (b *bench) points() []point {
	base := point{size: sizes[0], relays: 1}
	var out []point
	for _, retained := range []int{0, b.retained} {
		for _, size := range sizes {
			for _, relays := range relayCount {
				for _, nats := range []bool{false, true} {
					for _, rate := range append([]int{0}, rates...) {
						p := point{size: size, retained: retained, relays: relays, nats: nats, rate: rate}
						if relays == 0 && (nats || rate > 0) {
							continue // a bare loop has neither
						}
						if b.full || p.distance(base) <= 1 {
							out = append(out, p)
						}
					}
				}
			}
		}
	}
	return out
}

// distance counts in how many things two points differ. For a load, the usual
// broker is NATS; a drain has no rate.
func (p point) distance(base point) int {
	n := 0
	for _, differs := range []bool{
		p.size != base.size,
		p.retained != base.retained,
		p.relays > 1,
		p.rate == 0 && p.nats,
		p.rate > 0 && !p.nats,
		p.rate > 0 && p.rate != latencyRate,
	} {
		if differs {
			n++
		}
	}
	return n
}

// matrix measures drains and latencies over a general table.
func (b *bench) matrix(ctx context.Context) error {
	broker, err := startBroker(ctx)
	if err != nil {
		return err
	}
	defer broker.server.Close()
	for _, k := range []*kind{aggregate, none} {
		for _, retained := range []int{0, b.retained} {
			points := slices.DeleteFunc(b.points(), func(p point) bool {
				return p.retained != retained || !b.wanted(k.text+", "+p.String())
			})
			if err := b.matrixOf(ctx, broker, k, retained, points); err != nil {
				return fmt.Errorf("%s: %w", k.text, err)
			}
		}
	}
	return nil
}

// matrixOf measures the points of one kind of table.
func (b *bench) matrixOf(ctx context.Context, broker *broker, k *kind, retained int, points []point) error {
	if len(points) == 0 {
		return nil
	}
	box, err := newBox(ctx, b.dsn, k, "matrix")
	if err != nil {
		return err
	}
	defer box.close()
	if retained > 0 {
		if err := box.stage(ctx, true, b.retainedRows()...); err != nil {
			return err
		}
	}
	for _, p := range points {
		name := k.text + ", " + p.String()
		if err := b.measurePoint(ctx, broker, box, p, name); err != nil {
			return fmt.Errorf("%v: %w", p, err)
		}
		if p.nats {
			if err := broker.empty(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) measurePoint(ctx context.Context, broker *broker, box *box, p point, name string) error {
	publisher := atOnce
	if p.nats {
		publisher = broker.publisher
	}
	keep := p.retained > 0
	if p.rate > 0 {
		if err := box.stage(ctx, keep); err != nil {
			return err
		}
		f := flow{rate: p.rate, lasts: b.lasts / 2, size: p.size, relays: p.relays, publisher: publisher, woken: true}
		_, err := b.measureFlow(ctx, box, f, "matrix", name)
		return err
	}
	due := b.due(p.size)
	due.events = min(due.events, b.events*sizes[0]*8/p.size) // large ones must fit the server's memory
	if !b.full {
		due.events = min(due.events, b.events*2/5)
	}
	if err := box.stage(ctx, keep, due); err != nil {
		return err
	}
	var got sample
	var err error
	if p.relays == 0 {
		got, err = b.bareRate(ctx, box, b.batch, due.events, bareLoop.lease)
	} else {
		got, err = b.drainRate(ctx, box, crew{relays: p.relays, publisher: publisher}, due.events)
	}
	if err != nil {
		return err
	}
	b.addResult("matrix", "events/s", &side{name: name, values: []float64{got.value}, cpu: got.micros()})
	b.progress("%-70s %9.0f events/s", name, got.value)
	return nil
}
