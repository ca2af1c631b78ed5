package outbox

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// checkTimeout bounds one question whether the database is fit.
const checkTimeout = 5 * time.Second

// storeCheck remembers whether the store was found fit.
type storeCheck struct {
	passed  atomic.Bool
	trouble *trouble
}

// checkStore asks a [Checker] until it has said yes once. The error is an
// [*UnfitError], or says that it couldn't be asked.
func (r *Relay) checkStore(ctx context.Context) error {
	checker, ok := r.store.(Checker)
	if !ok || r.check.passed.Load() {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err := checker.Check(call)
	switch {
	case err == nil:
		r.check.passed.Store(true)
		r.check.trouble.end()
	case isUnfit(err) || ctx.Err() != nil:
		// The caller's to tell, or a stop.
	default:
		r.observer.storeFailed("check", err)
		r.check.trouble.note(1, "error", err)
	}
	return err
}

// awaitFitStore returns when the store was found fit or ctx ended, or an [*UnfitError].
func (r *relayRun) awaitFitStore(ctx context.Context) error {
	for failures := 1; ; failures++ {
		r.pulse.beat()
		err := r.checkStore(ctx)
		if err == nil || isUnfit(err) {
			return err
		}
		if !sleep(ctx, backoff(r.cfg.OutageBackoff, r.cfg.OutageBackoffMax, failures)) {
			return nil
		}
	}
}

func isUnfit(err error) bool { return errors.As(err, new(*UnfitError)) }
