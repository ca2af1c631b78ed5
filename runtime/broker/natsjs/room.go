package natsjs

import (
	"context"
	"sync"
)

// room counts how many messages may still be asked for.
type room struct {
	least int // not worth a request below

	mu    sync.Mutex
	free  int
	freed chan struct{} // has a token when free grew
}

func newRoom(size int) *room {
	return &room{free: size, least: max(size/4, 1), freed: make(chan struct{}, 1)}
}

// take waits until there is some room, and takes all of it. It reports false when
// ctx ended first.
func (r *room) take(ctx context.Context) (n int, ok bool) {
	for {
		r.mu.Lock()
		if r.free >= r.least {
			n, r.free = r.free, 0
			r.mu.Unlock()
			return n, ctx.Err() == nil
		}
		r.mu.Unlock()
		select {
		case <-r.freed:
		case <-ctx.Done():
			return 0, false
		}
	}
}

func (r *room) put(n int) {
	r.mu.Lock()
	r.free += n
	r.mu.Unlock()
	select {
	case r.freed <- struct{}{}:
	default:
	}
}
