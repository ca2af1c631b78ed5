package purge_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// The pool: transactions that do nothing.

var (
	errLocked = errors.New("lock wait timeout")
	errAway   = errors.New("connection refused")
)

type classifier struct{}

func (classifier) Classify(err error) outbox.ErrorInfo {
	switch {
	case errors.Is(err, errLocked):
		return outbox.ErrorInfo{Fault: outbox.FaultLockTimeout}
	case errors.Is(err, errAway):
		return outbox.ErrorInfo{Fault: outbox.FaultConnection}
	}
	return outbox.ErrorInfo{}
}

// pool is to be closed before the test's bubble ends.
func (f *fake) pool(t *testing.T) *outbox.DB {
	db := outbox.NewDB(sql.OpenDB(fakeConn{f}), classifier{})
	t.Cleanup(func() { _ = db.Close() })
	return db
}

type fakeConn struct{ f *fake }

func (c fakeConn) Connect(context.Context) (driver.Conn, error) { return c, nil }
func (c fakeConn) Driver() driver.Driver                        { return nil }
func (c fakeConn) Prepare(string) (driver.Stmt, error)          { return nil, io.ErrUnexpectedEOF }
func (c fakeConn) Close() error                                 { return nil }
func (c fakeConn) Begin() (driver.Tx, error)                    { return nil, io.ErrUnexpectedEOF }
func (c fakeConn) Rollback() error                              { return nil }

func (c fakeConn) BeginTx(_ context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if opts.Isolation != driver.IsolationLevel(sql.LevelReadCommitted) {
		return nil, errors.New("not at READ COMMITTED")
	}
	return c, nil
}

func (c fakeConn) Commit() error {
	err := c.f.call(context.Background(), "commit")
	c.f.mu.Unlock()
	return err
}

// count is how often a statement was sent.
func (f *fake) count(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[call]
}

// forget forgets the statements so far.
func (f *fake) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = nil
}

// wait lets time pass, and all that is to happen at its end happen.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// log is a logger to read.
func log(to *strings.Builder) *slog.Logger { return slog.New(slog.NewTextHandler(to, nil)) }
