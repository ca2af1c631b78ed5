package delivery

import (
	"context"
	"sync"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Redrives lets a handler that can, as an [outbox.Consumer], carry out redrives beside
// its subscription. The function that it returns ends that, and waits for the one under way.
func Redrives(ctx context.Context, h outbox.Handler) (stop func()) {
	r, ok := h.(interface {
		RunRedrives(ctx context.Context) error
	})
	if !ok {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = r.RunRedrives(ctx) }) // never an error: it goes on until ctx ends
	return func() {
		cancel()
		running.Wait()
	}
}
