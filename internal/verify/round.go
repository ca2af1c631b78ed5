package verify

import (
	"context"
	"sync"
)

// round kills and restarts a server once for several experiments, when the victim of each
// has come to its point.
type round struct {
	strike func(context.Context) error

	mu       sync.Mutex
	expected int
	arrived  int
	done     chan struct{}
	err      error
}

func newRound(experiments int, strike func(context.Context) error) *round {
	return &round{strike: strike, expected: experiments, done: make(chan struct{})}
}

// arrive waits until the server was killed and is there again.
func (r *round) arrive(ctx context.Context) error {
	r.mu.Lock()
	r.arrived++
	r.check(ctx)
	r.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave is for an experiment that won't arrive.
func (r *round) leave(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expected--
	if r.arrived > 0 {
		r.check(ctx)
	}
}

func (r *round) check(ctx context.Context) {
	if r.arrived != r.expected {
		return
	}
	r.expected = -1 // once
	go func() {
		r.err = r.strike(ctx)
		close(r.done)
	}()
}
