package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// sample is what one measurement gave.
type sample struct {
	value float64
	cpu   time.Duration // of the server for one event; 0 when it isn't known
}

func (s sample) micros() []float64 {
	if s.cpu == 0 {
		return nil
	}
	return []float64{float64(s.cpu) / float64(time.Microsecond)}
}

// side is one of several that are compared: a way to do something, and what it
// gave in each round.
type side struct {
	name   string
	run    func(context.Context) (sample, error)
	values []float64
	cpu    []float64 // microseconds
}

// value is the middle of the rounds' figures.
func (s *side) value() float64 { return median(s.values) }

// contest runs all sides in every round, from the first to the last and then from
// the last to the first, so that none has the warmer or the quieter machine.
func (b *bench) contest(ctx context.Context, section, unit string, sides ...*side) error {
	sides = slices.DeleteFunc(slices.Clone(sides), func(s *side) bool { return !b.wanted(s.name) })
	for round := range b.rounds {
		order := slices.Clone(sides)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, s := range order {
			got, err := s.run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			s.values = append(s.values, got.value)
			s.cpu = append(s.cpu, got.micros()...)
			b.progress("round %d  %-62s %9.0f %s", round+1, s.name, got.value, unit)
		}
	}
	for _, s := range sides {
		b.addResult(section, unit, s)
	}
	return nil
}

func (b *bench) addResult(section, unit string, s *side) {
	b.report.Results = append(b.report.Results, result{
		Section: section, Database: string(b.flavor), Case: s.name, Unit: unit,
		Value: s.value(), Rounds: s.values, ServerCPU: median(s.cpu),
	})
}

// atLeast checks that x is at least so many times y: the middle of what it is in each
// round, for a machine's noise comes and goes more slowly. With -case, they may not have run.
func (b *bench) atLeast(section, what string, x, y *side, bound float64) {
	var ratios []float64
	for i := range min(len(x.values), len(y.values)) {
		ratios = append(ratios, x.values[i]/y.values[i])
	}
	if len(ratios) > 0 {
		b.report.add(check{
			Section: section, Database: string(b.flavor), What: what, Value: median(ratios), Rounds: ratios, Bound: bound,
		})
	}
}

func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	if n == 0 {
		return 0
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}
