package natsjs

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(8)
		if n, ok := r.take(t.Context()); n != 8 || !ok {
			t.Errorf("%d, %v, want all of it", n, ok)
		}
		taken := make(chan int)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for {
				n, ok := r.take(ctx)
				if !ok {
					close(taken)
					return
				}
				taken <- n
			}
		}()
		r.put(1)
		synctest.Wait()
		select {
		case n := <-taken:
			t.Errorf("a request for %d is not worth it", n)
		default:
		}
		r.put(1)
		if n := <-taken; n != 2 {
			t.Errorf("%d, want 2", n)
		}
		cancel()
		if _, more := <-taken; more {
			t.Error("it goes on when ctx has ended")
		}
	})
}
