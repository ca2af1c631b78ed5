package outbox

import "runtime/debug"

// guarded calls code that isn't ours and makes its panic an error. fn has a goroutine of
// its own, which is all that a runtime.Goexit can end.
func guarded[T any](fn func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	ended := make(chan result, 1)
	go func() {
		var r result
		returned := false
		defer func() {
			if !returned {
				r.err = NewPanicError(recover(), debug.Stack())
			}
			ended <- r
		}()
		r.value, r.err = fn()
		r.err = readable(r.err)
		returned = true
	}()
	r := <-ended
	return r.value, r.err
}
