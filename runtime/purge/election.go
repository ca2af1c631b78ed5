package purge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// errNotElected ends a pass when another purger is elected.
var errNotElected = errors.New("another purger is elected")

// election is a run's part in the election of one purger over all processes: the
// holder of a row in outbox_task, for a while by the database's clock. It saves
// work, and nothing relies on it: what is deleted is old, whoever deletes it.
type election struct {
	*Purger
	holder  string
	log     *slog.Logger
	elected bool      // at the last look
	renewed time.Time // by this process's clock: decides only when to renew
}

// renew makes the run the holder, or lets it stay so, unless another one is. An
// error leaves open which of them is.
func (e *election) renew(ctx context.Context) error {
	begun := time.Now()
	err := e.tasks.TakeTask(ctx, e.db, TakeTaskParams{Task: e.task, Holder: e.holder, HoldUs: micros(e.cfg.Hold)})
	if err != nil {
		return fmt.Errorf("take the task: %w", err)
	}
	holder, err := e.tasks.TaskHolder(ctx, e.db, TaskHolderParams{Task: e.task})
	if err != nil && !errors.Is(err, sql.ErrNoRows) { // deleted by hand: the next look takes it
		return fmt.Errorf("ask for the task's holder: %w", err)
	}
	if holder != e.holder {
		e.set(false)
		return errNotElected
	}
	if !e.elected {
		e.log.Info("purge elected")
	}
	e.set(true)
	e.renewed = begun
	return nil
}

// keep renews when a third of the hold is over.
func (e *election) keep(ctx context.Context) error {
	if e.elected && time.Since(e.renewed) < e.cfg.Hold/3 {
		return nil
	}
	return e.renew(ctx)
}

// end gives the task up, so that another run need not wait for the hold's end.
func (e *election) end(ctx context.Context) error {
	if !e.elected {
		return nil
	}
	e.set(false)
	return e.tasks.EndTask(ctx, e.db, EndTaskParams{Task: e.task, Holder: e.holder})
}

func (e *election) set(elected bool) {
	e.elected = elected
	e.stats.elected(elected)
}
