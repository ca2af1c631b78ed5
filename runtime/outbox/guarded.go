package outbox

import "runtime/debug"

// guarded calls code that isn't ours and makes its panic an error. fn has a goroutine of
// its own, which is all that a runtime.Goexit can end.
func guarded(fn func() error) error {
	ended := make(chan error, 1)
	go func() {
		var err error
		returned := false
		defer func() {
			if !returned {
				err = NewPanicError(recover(), debug.Stack())
			}
			ended <- err
		}()
		err = readable(fn())
		returned = true
	}()
	return <-ended
}
