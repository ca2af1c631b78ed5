package fakemysql

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Client is a process that connects.
type Client struct {
	Name string

	// Gate, when set, is passed before every request and after every reply. It may
	// wait, as a stopped process does, until ctx ends; any other error than ctx's
	// says that the process is dead. database/sql holds locks meanwhile, which a
	// bubble's clock doesn't pass by: so a wait must not outlast ctx.
	Gate func(ctx context.Context) error
}

func (c *Client) gate(ctx context.Context) error {
	if c.Gate == nil {
		return nil
	}
	return c.Gate(ctx)
}

// Connector makes a process's connections to the server.
func (s *Server) Connector(c *Client) driver.Connector { return connector{s, c} }

type connector struct {
	server *Server
	client *Client
}

func (c connector) Driver() driver.Driver { return nil }

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := c.client.gate(ctx); err != nil {
		return nil, errRefused
	}
	op := Op{Client: c.client.Name, Name: "CONNECT", Tag: TagOf(ctx)}
	if d := c.server.latency(op) + c.server.latency(op.back()); d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err := c.client.gate(ctx); err != nil {
		return nil, errRefused
	}
	wire := c.server.wire(op)
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.server.down || wire.CutRequest || wire.CutReply {
		return nil, errRefused
	}
	ses := &session{server: c.server, client: c.client}
	c.server.sessions[ses] = struct{}{}
	return &conn{session: ses}, nil
}

func (s *Server) wire(op Op) Wire {
	if s.cfg.Wire == nil {
		return Wire{}
	}
	return s.cfg.Wire(op)
}

// conn is a client's connection. database/sql uses it from one goroutine at a time.
type conn struct {
	session *session
	broken  bool
	tag     string // of the last context that had a note: COMMIT has none
}

// TagOf is the tag of the note that ctx has, or empty.
func TagOf(ctx context.Context) string {
	if n, ok := ctx.Value(noteKey{}).(interface{ Tag() string }); ok {
		return n.Tag()
	}
	return ""
}

// do sends a request and waits for the reply, as go-sql-driver does: for a
// ReadTimeout at most, and until ctx ends, which closes the connection.
func (c *conn) do(ctx context.Context, name, sql string, args []driver.NamedValue) (*result, error) {
	ses := c.session
	if err := c.gate(ctx); err != nil {
		return nil, err
	}
	if c.broken {
		return nil, mysql.ErrInvalidConn
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if ctx != context.Background() {
		c.tag = TagOf(ctx)
	}
	r := &request{op: Op{Client: ses.client.Name, Name: name, Tag: c.tag}, sql: sql, note: ctx.Value(noteKey{}), reply: make(chan answer, 1)}
	for _, a := range args {
		v, err := fromDriver(a.Value)
		if err != nil {
			return nil, err
		}
		r.args = append(r.args, v)
	}
	ses.server.mu.Lock()
	ses.inFlight++
	ses.server.mu.Unlock()
	go ses.serve(r)
	timer := time.NewTimer(ses.server.cfg.ReadTimeout)
	defer timer.Stop()
	var a answer
	select {
	case a = <-r.reply:
	case <-ctx.Done():
		a.err = ctx.Err()
		c.lose()
	case <-timer.C:
		a.err = mysql.ErrInvalidConn
		c.lose()
	}
	if err := c.gate(ctx); err != nil {
		return nil, err
	}
	if errors.Is(a.err, mysql.ErrInvalidConn) {
		c.lose()
	}
	ses.server.tell(r, a)
	return a.result, a.err
}

// tell calls OnReply.
func (s *Server) tell(r *request, a answer) {
	if s.cfg.OnReply == nil {
		return
	}
	var rows [][]string
	var affected int64
	if a.result != nil {
		for _, row := range a.result.rows {
			rows = append(rows, words(row))
		}
		affected = a.result.affected
	}
	s.cfg.OnReply(r.op, words(r.args), rows, affected, a.err)
}

func words(values []value) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = v.words()
	}
	return out
}

// gate passes the client's. A process that is stopped closes no connection before it goes on.
func (c *conn) gate(ctx context.Context) error {
	client := c.session.client
	err := client.gate(ctx)
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil:
		c.lose()
		return mysql.ErrInvalidConn
	case !c.broken:
		c.broken = true
		go func() {
			_ = client.gate(context.Background())
			c.session.hangUp()
		}()
	}
	return ctx.Err()
}

func (c *conn) lose() {
	if !c.broken {
		c.broken = true
		c.session.hangUp()
	}
}

func (c *conn) Close() error {
	c.lose()
	return nil
}

func (c *conn) IsValid() bool { return !c.broken }

// ResetSession finds a connection that the server has closed while it was idle.
func (c *conn) ResetSession(context.Context) error {
	c.session.server.mu.Lock()
	defer c.session.server.mu.Unlock()
	if c.broken || c.session.dead {
		return driver.ErrBadConn
	}
	return nil
}

func (c *conn) Ping(ctx context.Context) error {
	_, err := c.do(ctx, "PING", "", nil)
	return err
}

func (c *conn) Begin() (driver.Tx, error) { return c.BeginTx(context.Background(), driver.TxOptions{}) }

func (c *conn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	if _, err := c.do(ctx, "BEGIN", "", nil); err != nil {
		return nil, err
	}
	return transaction{c}, nil
}

type transaction struct{ conn *conn }

// Commit obeys no context, as go-sql-driver's doesn't.
func (t transaction) Commit() error {
	_, err := t.conn.do(context.Background(), "COMMIT", "", nil)
	return err
}

func (t transaction) Rollback() error {
	if t.conn.broken {
		return mysql.ErrInvalidConn
	}
	_, err := t.conn.do(context.Background(), "ROLLBACK", "", nil)
	return err
}

func (c *conn) ExecContext(ctx context.Context, sql string, args []driver.NamedValue) (driver.Result, error) {
	r, err := c.do(ctx, nameOf(sql), sql, args)
	if err != nil {
		return nil, err
	}
	return affected(*r), nil
}

type affected result

func (a affected) LastInsertId() (int64, error) { return a.lastID, nil }
func (a affected) RowsAffected() (int64, error) { return a.affected, nil }

func (c *conn) QueryContext(ctx context.Context, sql string, args []driver.NamedValue) (driver.Rows, error) {
	r, err := c.do(ctx, nameOf(sql), sql, args)
	if err != nil {
		return nil, err
	}
	return &rows{result: r}, nil
}

type rows struct {
	result *result
	at     int
}

func (r *rows) Columns() []string { return r.result.names }
func (r *rows) Close() error      { return nil }

func (r *rows) Next(dest []driver.Value) error {
	if r.at == len(r.result.rows) {
		return io.EOF
	}
	for i, v := range r.result.rows[r.at] {
		dest[i] = v.toDriver()
	}
	r.at++
	return nil
}

var errNotPrepared = errors.New("fakemysql: statements can't be prepared")

func (c *conn) Prepare(string) (driver.Stmt, error) { return nil, errNotPrepared }

func (c *conn) PrepareContext(context.Context, string) (driver.Stmt, error) {
	return nil, errNotPrepared
}

func (c *conn) CheckNamedValue(v *driver.NamedValue) (err error) {
	if raw, ok := v.Value.(json.RawMessage); ok {
		v.Value = string(raw)
		return nil
	}
	v.Value, err = driver.DefaultParameterConverter.ConvertValue(v.Value)
	return err
}

// nameOf is the name that sqlc has left in a statement, or the statement.
func nameOf(sql string) string {
	rest, ok := strings.CutPrefix(sql, "-- name: ")
	if !ok {
		return sql
	}
	name, _, _ := strings.Cut(rest, " ")
	return name
}
