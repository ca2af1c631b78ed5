package outbox

import (
	"context"
	"time"
)

// watchBacklog counts the backlog for the observer, at once and then every
// BacklogInterval, until ctx ends.
func (r *relayRun) watchBacklog(ctx context.Context) {
	ticker := time.NewTicker(r.cfg.BacklogInterval)
	defer ticker.Stop()
	for {
		r.observeBacklog(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (r *relayRun) observeBacklog(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, r.cfg.BacklogInterval)
	defer cancel()
	backlog, err := r.store.Backlog(call)
	switch {
	case err == nil:
		r.troubles.backlog.end()
		r.observer.backlog(backlog)
	case ctx.Err() == nil: // else it is the stop's doing
		r.observer.storeFailed("backlog", err)
		r.troubles.backlog.note(1, "error", err)
	}
}
