package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
)

// DBTX runs statements: a pool or a transaction. It is sqlc's interface of that name.
type DBTX interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Transaction is what a writer asks for: *sql.Tx, *outbox.Tx, or a type that
// embeds one of them. A pool does not fit, for it has no StmtContext; an event
// written on a pool would commit by itself.
type Transaction interface {
	DBTX
	StmtContext(ctx context.Context, stmt *sql.Stmt) *sql.Stmt
}

// Tx is the transaction of [InTx]. It fits wherever sqlc's DBTX does.
//
// It remembers the first error that ended, or may have ended, the transaction on
// the server. From then on it is poisoned: it runs nothing more and can only be
// rolled back. Without that, a statement after a swallowed deadlock error (MySQL
// 1213) would run outside any transaction and commit alone.
//
// What passes it by, such as an error that only the Scan of QueryRowContext
// returns, or a prepared statement, is held by the connections of package mysqldb.
type Tx struct {
	tx         *sql.Tx
	classifier ErrorClassifier

	mu     sync.Mutex
	rows   *sql.Rows // the last result set: its error may come only after QueryContext returned
	poison error
	wrote  bool // an event, which a relay may be told of after the commit
}

// PoisonedError is returned for every use of a transaction after the error that
// poisoned it.
type PoisonedError struct {
	Cause error
}

func (e *PoisonedError) Error() string {
	return fmt.Sprintf("the transaction can only be rolled back since: %v", e.Cause)
}

func (e *PoisonedError) Unwrap() error { return e.Cause }

// Poison makes a rollback the only way for the transaction to end. The first cause is kept.
func (t *Tx) Poison(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.poison == nil {
		t.poison = cause
	}
}

// wroteEvent notes that an event was written.
func (t *Tx) wroteEvent() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wrote = true
}

func (t *Tx) hasEvents() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wrote
}

// Err returns a *PoisonedError when the transaction can only be rolled back, else nil.
func (t *Tx) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.poison == nil && t.rows != nil {
		t.noteLocked(t.rows.Err())
	}
	if t.poison != nil {
		return &PoisonedError{Cause: t.poison}
	}
	return nil
}

// closeRows reads what is left of the last result set: the error that ended the
// transaction may be in it, and database/sql would drop it.
func (t *Tx) closeRows() {
	t.mu.Lock()
	rows := t.rows
	t.mu.Unlock()
	if rows != nil {
		t.note(rows.Close())
	}
}

func (t *Tx) note(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.noteLocked(err)
}

func (t *Tx) noteLocked(err error) {
	if err != nil && t.poison == nil && classify(t.classifier, err).Fault.EndsTransaction() {
		t.poison = err
	}
}

func (t *Tx) check(query string) error {
	if err := t.Err(); err != nil {
		return err
	}
	return refuseTransactionControl(query)
}

// ExecContext runs a statement in the transaction.
func (t *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := t.check(query); err != nil {
		return nil, err
	}
	res, err := t.tx.ExecContext(ctx, query, args...)
	t.note(err)
	return res, err
}

// PrepareContext prepares a statement that runs in the transaction.
func (t *Tx) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	if err := t.check(query); err != nil {
		return nil, err
	}
	stmt, err := t.tx.PrepareContext(ctx, query)
	t.note(err)
	return stmt, err
}

// QueryContext runs a query in the transaction.
func (t *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := t.check(query); err != nil {
		return nil, err
	}
	rows, err := t.tx.QueryContext(ctx, query, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.noteLocked(err)
	t.rows = rows
	return rows, err
}

// QueryRowContext runs a query of one row in the transaction. On a poisoned
// transaction the row's Scan returns an error.
func (t *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if err := t.check(query); err != nil {
		// A *sql.Row can't be made with an error of ours; a context that has
		// ended gives one that runs nothing.
		ended, cancel := context.WithCancelCause(ctx)
		cancel(err)
		return t.tx.QueryRowContext(ended, query, args...)
	}
	row := t.tx.QueryRowContext(ctx, query, args...)
	t.note(row.Err())
	return row
}

// StmtContext returns the statement for use in the transaction.
func (t *Tx) StmtContext(ctx context.Context, stmt *sql.Stmt) *sql.Stmt {
	return t.tx.StmtContext(ctx, stmt)
}
