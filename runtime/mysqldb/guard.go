package mysqldb

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// guardConnector makes connections on which a transaction that the server has
// ended, or may have ended, can only be rolled back.
//
// It stands below database/sql, since that swallows some errors: the one that
// only closing an unread result set would give, the one that a caller of Row.Scan
// drops. And it holds what outbox.Tx can't: a prepared statement, a plain *sql.Tx.
type guardConnector struct{ driver.Connector }

// Guard puts the guard of [Connector] around another connector of go-sql-driver's
// connections, such as one that tests make. [Connector] has it already.
func Guard(c driver.Connector) driver.Connector { return guardConnector{c} }

func (c guardConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	inner, ok := conn.(mysqlConn)
	if !ok {
		_ = conn.Close()
		return nil, errors.New("mysqldb: this version of the driver lacks an interface that the guard needs")
	}
	return &guardConn{mysqlConn: inner}, nil
}

// mysqlConn is what database/sql uses of the driver's connection.
type mysqlConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// guardConn is a connection. database/sql uses it from one goroutine at a time.
type guardConn struct {
	mysqlConn

	inTx     bool
	poison   error // what ended the transaction; nil while it is sound
	readOnly bool  // the server said so: after a failover it is no longer the primary
	unended  bool  // a COMMIT or ROLLBACK failed: the transaction may be open
}

// IsValid implements driver.Validator. A connection to a server that has become
// read-only is not kept: the next one may reach the new primary, where this one
// would fail for as long as it is used. Nor is one whose transaction may be open: what
// the next one to use it writes would not be committed.
func (c *guardConn) IsValid() bool { return !c.readOnly && !c.unended && c.mysqlConn.IsValid() }

func (c *guardConn) err() error {
	if c.poison != nil {
		return &outbox.PoisonedError{Cause: c.poison}
	}
	return nil
}

func (c *guardConn) note(err error) {
	if err == nil {
		return
	}
	fault := Wrap(nil).Classify(err).Fault
	if fault == outbox.FaultReadOnly {
		c.readOnly = true
	}
	if c.inTx && c.poison == nil && fault.EndsTransaction() {
		c.poison = err
	}
}

func (c *guardConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.mysqlConn.BeginTx(ctx, opts)
	if err != nil {
		c.note(err)
		return nil, err
	}
	c.inTx, c.poison = true, nil
	return &guardTx{inner: tx, conn: c}, nil
}

func (c *guardConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.err(); err != nil {
		return nil, err
	}
	res, err := c.mysqlConn.ExecContext(ctx, query, args)
	c.note(err)
	return res, err
}

func (c *guardConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.err(); err != nil {
		return nil, err
	}
	rows, err := c.mysqlConn.QueryContext(ctx, query, args)
	c.note(err)
	return c.guardRows(rows), err
}

func (c *guardConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if err := c.err(); err != nil {
		return nil, err
	}
	stmt, err := c.mysqlConn.PrepareContext(ctx, query)
	c.note(err)
	if err != nil {
		return nil, err
	}
	inner, ok := stmt.(mysqlStmt)
	if !ok {
		_ = stmt.Close()
		return nil, errors.New("mysqldb: this version of the driver lacks an interface that the guard needs")
	}
	return &guardStmt{mysqlStmt: inner, conn: c}, nil
}

type mysqlStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
	driver.NamedValueChecker
}

type guardStmt struct {
	mysqlStmt
	conn *guardConn
}

func (s *guardStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if err := s.conn.err(); err != nil {
		return nil, err
	}
	res, err := s.mysqlStmt.ExecContext(ctx, args)
	s.conn.note(err)
	return res, err
}

func (s *guardStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.conn.err(); err != nil {
		return nil, err
	}
	rows, err := s.mysqlStmt.QueryContext(ctx, args)
	s.conn.note(err)
	return s.conn.guardRows(rows), err
}

// guardTx is a transaction.
type guardTx struct {
	inner driver.Tx
	conn  *guardConn
}

// Commit rolls back when the transaction was ended on the server: a COMMIT would
// be answered with OK, for there is nothing left to commit.
func (t *guardTx) Commit() error {
	if err := t.conn.err(); err != nil {
		_ = t.Rollback()
		return err
	}
	t.conn.inTx = false
	err := t.inner.Commit()
	t.conn.unended = err != nil
	t.conn.note(err)
	return err
}

func (t *guardTx) Rollback() error {
	t.conn.inTx, t.conn.poison = false, nil
	err := t.inner.Rollback()
	t.conn.unended = err != nil
	return err
}
