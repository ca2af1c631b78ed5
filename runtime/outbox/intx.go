package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/outboxgen/outboxgen/internal/fault"
)

// Outcome is how a transaction ended.
type Outcome int

// The outcomes. There is no fourth, and Unknown is not a failure.
const (
	// Unknown: COMMIT was sent and its reply was lost. The server may have
	// committed, or may do so in a moment. Find out with the generated
	// Reconcile function, or repeat the whole transaction under the same
	// request id.
	Unknown Outcome = iota
	// Committed: the server confirmed.
	Committed
	// RolledBack: nothing of the transaction remains, for certain.
	RolledBack
)

func (o Outcome) String() string {
	switch o {
	case Committed:
		return "committed"
	case RolledBack:
		return "rolled back"
	default:
		return "unknown"
	}
}

// CommitUnknownError comes with the outcome Unknown.
type CommitUnknownError struct {
	Cause error
}

func (e *CommitUnknownError) Error() string {
	return fmt.Sprintf("commit: outcome unknown: %v", e.Cause)
}

func (e *CommitUnknownError) Unwrap() error { return e.Cause }

// InTx runs fn in a transaction at the database's default isolation level. It
// commits when fn returns nil and nothing has poisoned the transaction (see
// [Tx]), otherwise it rolls back. A panic in fn rolls back and goes on. After the
// commit of an event, the relays of this process that work on db are woken.
//
// The error is nil exactly when the outcome is Committed: fn's own error, a
// *PoisonedError, or a *CommitUnknownError. go-sql-driver/mysql does not stop
// waiting for COMMIT when ctx ends; only the connection's readTimeout and
// writeTimeout bound it.
func InTx(ctx context.Context, db *DB, fn func(tx *Tx) error) (Outcome, error) {
	return InTxWith(ctx, db, nil, fn)
}

// InTxWith is InTx with options for the transaction, such as its isolation level.
func InTxWith(ctx context.Context, db *DB, opts *sql.TxOptions, fn func(tx *Tx) error) (Outcome, error) {
	sqlTx, err := db.BeginTx(ctx, opts)
	if err != nil {
		return RolledBack, fmt.Errorf("begin: %w", err)
	}
	tx := &Tx{tx: sqlTx, classifier: db.classifier}
	if err := fault.Begun(ctx); err != nil {
		_ = sqlTx.Rollback()
		return RolledBack, err
	}

	committing := false
	defer func() {
		if !committing {
			// fn failed, panicked or called runtime.Goexit. COMMIT was never
			// sent, so that the server rolls back even if this call can't reach it.
			_ = sqlTx.Rollback()
		}
	}()

	if err := fn(tx); err != nil {
		if poison := tx.Err(); poison != nil && !errors.Is(err, errors.Unwrap(poison)) {
			err = errors.Join(err, poison) // say what came first
		}
		return RolledBack, err
	}
	tx.closeRows()
	if err := tx.Err(); err != nil {
		return RolledBack, err
	}
	if err := fault.Unsent(ctx); err != nil {
		return RolledBack, err
	}
	committing = true
	outcome, err := commit(ctx, sqlTx, db)
	if outcome != RolledBack && tx.hasEvents() {
		db.Wake()
	}
	if outcome == Committed {
		_ = fault.Committed(ctx)
	}
	return outcome, err
}

func commit(ctx context.Context, sqlTx *sql.Tx, db *DB) (Outcome, error) {
	err := sqlTx.Commit()
	if err == nil {
		err = fault.Reply(ctx)
	}
	switch {
	case err == nil:
		return Committed, nil
	case errors.As(err, new(*PoisonedError)):
		// The connection knew better than to send COMMIT.
		return RolledBack, err
	case errors.Is(err, sql.ErrTxDone), isContextError(err):
		// database/sql gives these without sending COMMIT: the context had ended
		// and the transaction was, or is being, rolled back.
		return RolledBack, fmt.Errorf("commit not sent: %w", err)
	case db.Classify(err).Fault.RefusesCommit():
		return RolledBack, fmt.Errorf("commit refused: %w", err)
	default:
		return Unknown, &CommitUnknownError{Cause: err}
	}
}

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
