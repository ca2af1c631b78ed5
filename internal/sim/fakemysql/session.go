package fakemysql

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"
)

// session is the server's end of a connection.
type session struct {
	server *Server
	client *Client
	tx     *tx // begun by the client
	note   any
	dead   bool
	idle   *time.Timer

	inFlight int  // requests that have not been answered
	hungUp   bool // the client has closed its end
	silent   bool // the server doesn't learn of that
}

type answer struct {
	result *result
	err    error
}

type noteKey struct{}

// WithNote gives a note to the changes that are made with ctx; see [Change].
func WithNote(ctx context.Context, note any) context.Context {
	return context.WithValue(ctx, noteKey{}, note)
}

// request is a request on its way.
type request struct {
	op    Op
	wire  Wire
	sql   string // of a statement
	args  []value
	note  any
	reply chan answer // has room for one
}

// serve takes a request through the network and the server.
func (ses *session) serve(r *request) {
	s := ses.server
	if d := s.latency(r.op); d > 0 {
		time.Sleep(d)
	}
	r.wire = s.wire(r.op)
	if r.wire.Late > 0 {
		time.Sleep(r.wire.Late)
	}
	s.mu.Lock()
	var a answer
	switch {
	case ses.dead:
		a.err = mysql.ErrInvalidConn
	case r.wire.CutRequest:
		a.err = mysql.ErrInvalidConn
		s.cut(ses, r.wire)
	default:
		a.result, a.err = s.answer(ses, r)
		if ses.dead {
			a = answer{err: mysql.ErrInvalidConn}
		} else if r.wire.CutReply {
			a = answer{err: mysql.ErrInvalidConn}
			s.cut(ses, r.wire)
		}
	}
	ses.inFlight--
	if ses.hungUp && ses.inFlight == 0 {
		s.close(ses)
	}
	ses.watchIdle()
	s.mu.Unlock()
	if r.wire.Silent {
		return
	}
	if d := s.latency(r.op.back()); d > 0 {
		time.Sleep(d)
	}
	r.reply <- a
}

func (op Op) back() Op {
	op.Reply = true
	return op
}

func (s *Server) latency(op Op) time.Duration {
	if s.cfg.Latency == nil {
		return 0
	}
	return s.cfg.Latency(op)
}

func (s *Server) cut(ses *session, w Wire) {
	if w.Silent {
		ses.silent = true
		return
	}
	s.close(ses)
}

// watchIdle ends a session that stays in a transaction and says nothing.
func (ses *session) watchIdle() {
	if ses.idle != nil {
		ses.idle.Stop()
		ses.idle = nil
	}
	if ses.dead || ses.tx == nil && !ses.silent {
		return
	}
	ses.idle = time.AfterFunc(ses.server.cfg.IdleWait, func() {
		ses.server.mu.Lock()
		defer ses.server.mu.Unlock()
		if ses.inFlight == 0 {
			ses.server.close(ses)
		}
	})
}

// close ends a session, and rolls its transaction back.
func (s *Server) close(ses *session) {
	if ses.dead {
		return
	}
	ses.dead = true
	delete(s.sessions, ses)
	if ses.tx != nil {
		s.end(ses.tx, false)
		ses.tx = nil
	}
	if ses.idle != nil {
		ses.idle.Stop()
	}
}

// hangUp is the client's end of the connection. What is on its way still arrives.
func (ses *session) hangUp() {
	s := ses.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if ses.silent {
		return
	}
	ses.hungUp = true
	if ses.inFlight == 0 {
		s.close(ses)
	}
}

// answer does what is asked.
func (s *Server) answer(ses *session, r *request) (*result, error) {
	if ses.idle != nil {
		ses.idle.Stop()
		ses.idle = nil
	}
	if r.wire.Err != nil {
		if r.wire.Err.Number == 1213 || r.wire.Err.Number == 1020 {
			s.rollback(ses)
		}
		return nil, r.wire.Err
	}
	switch r.op.Name {
	case "PING":
		return &result{}, nil
	case "BEGIN":
		if ses.tx != nil {
			s.end(ses.tx, true) // as START TRANSACTION does
		}
		ses.tx = &tx{session: ses}
		return &result{}, nil
	case "COMMIT":
		return &result{}, s.commit(ses)
	case "ROLLBACK":
		s.rollback(ses)
		return &result{}, nil
	}
	ses.note = r.note
	if r.sql == binlogQuery {
		return &result{names: []string{"log_bin", "format"}, rows: [][]value{{intValue(1), textValue("ROW")}}}, nil
	}
	st, err := s.statement(r.sql)
	if err != nil {
		return nil, err
	}
	t, alone := ses.tx, ses.tx == nil
	if alone {
		t = &tx{session: ses}
		ses.tx = t // so that the end of the session ends it
	}
	out, err := s.run(t, st, r.args)
	switch {
	case errors.Is(err, errDeadlock), errors.Is(err, errLost):
		s.rollback(ses)
	case alone:
		s.end(t, err == nil)
		ses.tx = nil
	}
	return out, err
}

func (s *Server) rollback(ses *session) {
	if ses.tx != nil {
		s.end(ses.tx, false)
		ses.tx = nil
	}
}

func (s *Server) commit(ses *session) error {
	t := ses.tx
	if t == nil {
		return nil // there is nothing to commit, which is no error
	}
	ses.tx = nil
	if s.readOnly && slices.ContainsFunc(t.undo, func(f former) bool { return f.row.dirty }) {
		s.end(t, false)
		return errReadOnly
	}
	s.end(t, true)
	return nil
}

// binlogQuery asks for variables, which there are not otherwise.
const binlogQuery = "SELECT @@log_bin, @@session.binlog_format"
