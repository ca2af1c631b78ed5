package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// notice lets goroutines wait for a change of something.
type notice struct {
	mu sync.Mutex
	c  chan struct{}
}

// next returns a channel that is closed at the next change.
func (n *notice) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.c == nil {
		n.c = make(chan struct{})
	}
	return n.c
}

func (n *notice) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.c != nil {
		close(n.c)
		n.c = nil
	}
}

// patience is how long a script waits for what has to come of its fault.
const patience = 2 * time.Minute

// await returns when ok does, which is asked after every change.
func (n *notice) await(ctx context.Context, what string, ok func() bool) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		next := n.next()
		if ok() {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case <-timer.C:
			return fmt.Errorf("inconclusive: %s did not come within %v", what, patience)
		}
	}
}
