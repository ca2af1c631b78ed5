package main

import (
	"context"
	"fmt"
	"slices"
)

// side is one of several that are compared: a way to do something, and its
// figure in each round.
type side struct {
	name   string
	run    func(context.Context) (float64, error)
	values []float64
}

// value is the middle of the rounds' figures.
func (s *side) value() float64 { return median(s.values) }

// contest runs all sides in every round, from the first to the last and then from
// the last to the first, so that none has the warmer or the quieter machine.
func (b *bench) contest(ctx context.Context, unit string, sides ...*side) error {
	for round := range b.rounds {
		order := slices.Clone(sides)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, s := range order {
			value, err := s.run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			s.values = append(s.values, value)
			b.progress("round %d  %-60s %9.0f %s", round+1, s.name, value, unit)
		}
	}
	return nil
}

func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	if n == 0 {
		return 0
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}

// percentile is the least value that at least this part of all values don't exceed.
func percentile(sorted []float64, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(part*float64(len(sorted))+0.999999) - 1
	return sorted[max(0, min(i, len(sorted)-1))]
}
