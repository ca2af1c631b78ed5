package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

const (
	// redriveLook is how often a process looks for redrives.
	redriveLook = 2 * time.Second

	// redriveTries is how often one is begun before it is given up: its processes ended.
	redriveTries = 3
)

// What is written down of a redrive: outbox_audit.operation.
const (
	operationRedriven     = "parked.redriven"
	operationRedriveFails = "parked.redrive-failed"
)

// RunRedrives hands those of the consumer's parked events to the handler that people have
// asked for: outboxgen parked redrive. It goes on until ctx ends, and returns nil.
// Subscribe of the brokers' packages calls it; call it yourself beside a Subscribe of your own.
//
// However many processes run it, one at a time works on a consumer's, in the order in which
// they are due. An event that fails again stays parked, with the new reason.
func (c *Consumer) RunRedrives(ctx context.Context) error {
	r := &redriver{Consumer: c, trouble: trouble{
		log: c.cfg.Logger.With("consumer", c.spec.Name), level: slog.LevelWarn,
		message: "redrives can't be read; outboxgen schema diff says whether a table is missing", overText: "redrives can be read again",
	}}
	for failures := 0; ctx.Err() == nil; {
		more, err := r.next(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			failures++
			r.trouble.note(1, "error", reasonOf(c.db, err))
			sleep(ctx, backoff(redriveLook, defaultMaxBackoff, failures))
		case err != nil:
		default:
			failures = 0
			r.trouble.end()
			if !more {
				sleep(ctx, redriveLook)
			}
		}
	}
	return nil
}

// redriver works on the redrives of a consumer.
type redriver struct {
	*Consumer
	trouble trouble
}

// next carries out the first redrive that is due, and reports whether there was one.
func (r *redriver) next(ctx context.Context) (bool, error) {
	rows, err := r.spec.Inbox.SelectRedrive(ctx, r.db, SelectRedriveParams{ConsumerName: r.spec.Name})
	if err != nil || len(rows) == 0 || rows[0].Taken != 0 {
		return false, err
	}
	row := rows[0]
	if row.Tries >= redriveTries {
		return true, r.end(ctx, row, operationRedriveFails, fmt.Sprintf("given up: begun %d times, and each time the process ended", row.Tries))
	}
	n, err := r.spec.Inbox.TakeRedrive(ctx, r.db, TakeRedriveParams{LeaseUs: r.redriveLease().Microseconds(), ID: row.ID})
	if err != nil || n == 0 { // another process was first
		return false, err
	}
	return true, r.carryOut(ctx, row)
}

// redriveLease is how long a process may be at a redrive: the handler's time, that for what is
// written down, and as much again for waits while the database is away.
func (r *redriver) redriveLease() time.Duration { return 2 * (r.cfg.Timeout + bookTimeout) }

// carryOut redrives an event. What the event is not to blame for is tried again for as
// long as it is this process's.
func (r *redriver) carryOut(ctx context.Context, row RedriveRow) error {
	until := time.Now().Add(r.cfg.Timeout + bookTimeout) // the last try ends within the lease
	id, err := ParseEventID(row.EventID)
	if err != nil {
		return r.end(ctx, row, operationRedriveFails, err.Error())
	}
	for n := 1; ; n++ {
		handling, err := r.Redrive(context.WithoutCancel(ctx), id) // what is begun ends, as that of a delivery
		var failed *HandlingError
		switch {
		case err == nil:
			return r.end(ctx, row, operationRedriven, handling.String())
		case errors.Is(err, ErrNotParked):
			return r.end(ctx, row, operationRedriveFails, "already processed: it is no longer parked")
		case errors.Is(err, ErrUnreadable):
			return r.end(ctx, row, operationRedriveFails, ErrUnreadable.Error())
		case errors.As(err, &failed) && failed.Kind == FailureFailed:
			return r.end(ctx, row, operationRedriveFails, reasonOf(r.db, err))
		case time.Now().After(until), !sleep(ctx, backoff(redriveLook, redriveLook, n)):
			return err
		}
	}
}

// end forgets a redrive and writes down what came of it.
func (r *redriver) end(ctx context.Context, row RedriveRow, operation, detail string) error {
	return r.book(context.WithoutCancel(ctx), func(ctx context.Context, tx *Tx) error {
		if err := r.spec.Inbox.EndRedrive(ctx, tx, EndRedriveParams{ID: row.ID}); err != nil {
			return fmt.Errorf("end a redrive: %w", err)
		}
		return r.spec.Inbox.RecordOperation(ctx, tx, RecordOperationParams{
			Operation: operation, Operator: row.Operator, ConsumerName: r.spec.Name, EventID: row.EventID,
			Detail: shorten(detail, maxParkedReason),
		})
	})
}
