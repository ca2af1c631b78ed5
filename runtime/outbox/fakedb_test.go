package outbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"sync"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// fakeDB is a driver that records what it is sent and answers as told.
type fakeDB struct {
	mu     sync.Mutex
	sent   []string
	answer map[string]error // by statement, "COMMIT" and "ROLLBACK" among them
	rowErr map[string]error // given in the middle of a result set
}

// The errors that fakeClassifier knows.
var (
	errDeadlock    = errors.New("deadlock")
	errLockTimeout = errors.New("lock wait timeout")
	errReadOnly    = errors.New("read-only")
	errConnection  = errors.New("connection lost")
	errForeignKey  = errors.New("foreign key")
	errDuplicate   = errors.New("duplicate of uq_test_identity")
	errOtherUnique = errors.New("duplicate of another key")
	errRefused     = errors.New("data too long: 'secret' for a column")
)

type fakeClassifier struct{}

func (fakeClassifier) Classify(err error) outbox.ErrorInfo {
	switch {
	case errors.Is(err, errDeadlock):
		return outbox.ErrorInfo{Fault: outbox.FaultDeadlock}
	case errors.Is(err, errLockTimeout):
		return outbox.ErrorInfo{Fault: outbox.FaultLockTimeout}
	case errors.Is(err, errReadOnly):
		return outbox.ErrorInfo{Fault: outbox.FaultReadOnly}
	case errors.Is(err, errConnection), errors.Is(err, driver.ErrBadConn):
		return outbox.ErrorInfo{Fault: outbox.FaultConnection}
	case errors.Is(err, errDuplicate):
		return outbox.ErrorInfo{Fault: outbox.FaultDuplicate, Code: 1062, Constraint: "uq_test_identity"}
	case errors.Is(err, errOtherUnique):
		return outbox.ErrorInfo{Fault: outbox.FaultDuplicate, Code: 1062, Constraint: "uq_test_identity_old"}
	}
	if errors.Is(err, errRefused) {
		return outbox.ErrorInfo{Code: 1406}
	}
	return outbox.ErrorInfo{}
}

func newFakeDB() (*fakeDB, *outbox.DB) {
	f := &fakeDB{answer: map[string]error{}, rowErr: map[string]error{}}
	return f, outbox.NewDB(sql.OpenDB(f), fakeClassifier{})
}

func (f *fakeDB) record(statement string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = append(f.sent, statement)
	return f.answer[statement]
}

func (f *fakeDB) statements() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.sent...)
}

func (f *fakeDB) Connect(context.Context) (driver.Conn, error) { return &fakeConn{f}, nil }
func (f *fakeDB) Driver() driver.Driver                        { return nil }

type fakeConn struct{ f *fakeDB }

func (c *fakeConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not used") }
func (c *fakeConn) Close() error                        { return nil }
func (c *fakeConn) Begin() (driver.Tx, error)           { return c, c.f.record("BEGIN") }
func (c *fakeConn) Commit() error                       { return c.f.record("COMMIT") }
func (c *fakeConn) Rollback() error                     { return c.f.record("ROLLBACK") }

func (c *fakeConn) BeginTx(_ context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if opts.Isolation == driver.IsolationLevel(sql.LevelReadCommitted) {
		return c, c.f.record("BEGIN READ COMMITTED")
	}
	return c.Begin()
}

func (c *fakeConn) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), c.f.record(query)
}

func (c *fakeConn) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	if err := c.f.record(query); err != nil {
		return nil, err
	}
	return &fakeRows{err: c.f.rowErr[query]}, nil
}

type fakeRows struct{ err error }

func (*fakeRows) Columns() []string { return []string{"x"} }

// Close reads what is left, as the MySQL driver does.
func (r *fakeRows) Close() error { return r.err }

func (r *fakeRows) Next([]driver.Value) error {
	if r.err != nil {
		return r.err
	}
	return io.EOF
}
