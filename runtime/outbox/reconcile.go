package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/fault"
)

// ErrStillUnknown is returned by a Reconcile function while the transaction in
// question may still commit: a lock is held on its row, or the database could
// not be asked. Ask again later; never take it for an absence.
var ErrStillUnknown = errors.New("still unknown: the transaction may be open on the server")

// Reconciled is what became of a request whose outcome was Unknown.
type Reconciled struct {
	// Found: the business row is there, and with it, in the same transaction,
	// its event. When it is false nothing was committed, and nothing will be.
	Found bool

	EventID     uuid.UUID
	AggregateID string
	CreatedAt   time.Time // as the business row has it, read as UTC
}

// NewReconciled is called by generated code with the columns of a business row.
func NewReconciled(eventID string, aggregateID any, createdUs int64) (Reconciled, error) {
	id, err := ParseEventID(eventID)
	if err != nil {
		return Reconciled{}, fmt.Errorf("the business row's event id: %w", err)
	}
	return Reconciled{
		Found:       true,
		EventID:     id,
		AggregateID: fmt.Sprint(aggregateID),
		CreatedAt:   time.UnixMicro(createdUs).UTC(),
	}, nil
}

// ErrRequestNotUnique is returned by a Reconcile function when several business
// rows match the request: then none of them can be said to be its own.
var ErrRequestNotUnique = errors.New("the request is not unique: several business rows match it")

// ReconciledRows is called by generated code with the rows that match, two at most.
func ReconciledRows(rows []Reconciled) (Reconciled, error) {
	switch len(rows) {
	case 0:
		return Reconciled{}, nil
	case 1:
		return rows[0], nil
	default:
		return Reconciled{}, ErrRequestNotUnique
	}
}

// Reconcile runs a locking read of the business table on the primary. Generated
// Reconcile functions call it.
//
// The read must lock: a COMMIT whose reply was lost may still be on its way, and
// a plain SELECT would say "absent" before the row appears. While that
// transaction is open the read waits for its lock; a lock wait timeout, a lost
// connection or an ended context give [ErrStillUnknown].
func Reconcile(
	ctx context.Context,
	db *DB,
	read func(context.Context, Transaction) (Reconciled, error),
) (Reconciled, error) {
	ctx = fault.In(ctx, fault.Other)
	var found Reconciled
	_, err := InTxWith(ctx, db, &sql.TxOptions{Isolation: sql.LevelReadCommitted}, func(tx *Tx) error {
		var err error
		found, err = read(ctx, tx)
		return err
	})
	switch {
	case err == nil:
		return found, nil
	case db.Classify(err).Fault.EndsTransaction():
		return Reconciled{}, fmt.Errorf("%w: %w", ErrStillUnknown, err)
	default:
		return Reconciled{}, err
	}
}
