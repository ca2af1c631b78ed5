package fakemysql

import (
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Config has a server's settings. Zero durations have the defaults given.
type Config struct {
	// MariaDB words the messages as MariaDB does.
	MariaDB bool

	// LockWait is innodb_lock_wait_timeout. Defaults to 1 s.
	LockWait time.Duration

	// IdleWait is wait_timeout, for sessions in a transaction. Defaults to 60 s.
	IdleWait time.Duration

	// ReadTimeout is the driver's: after it a client gives a connection up. Defaults to 2 s.
	ReadTimeout time.Duration

	// Latency is how long a request, or a reply, is on its way. Defaults to none.
	Latency func(Op) time.Duration

	// Wire says what happens to a request, when it has come to the end of its way. Defaults to
	// nothing.
	Wire func(Op) Wire

	// OnReply is told what a client is answered. It must not call the server.
	OnReply func(op Op, args []string, rows [][]string, affected int64, err error)

	// OnCommit is told each change at its commit, in the server's order. It must not
	// call the server.
	OnCommit func(Change)
}

// Op is a request.
type Op struct {
	Client string
	Name   string // sqlc's name of the statement; CONNECT, BEGIN, COMMIT, ROLLBACK; else the statement
	Tag    string // of the note of its transaction, when that has a method Tag
	Reply  bool   // for Latency: the way back
}

// Wire is what happens to a request. The zero value is nothing.
type Wire struct {
	// CutRequest loses the connection before the request arrives, CutReply after its effect.
	CutRequest, CutReply bool

	// Silent keeps the loss from either end: the client waits for its ReadTimeout, the
	// server for its IdleWait.
	Silent bool

	// Late is how much later the request arrives at the server. A client that has given up by then does not
	// take it back.
	Late time.Duration

	// Err is the server's answer instead of the statement's effect. Errors 1213 and 1020
	// roll the transaction back.
	Err *mysql.MySQLError
}

// Change is a row's change at its commit.
type Change struct {
	Client        string
	Note          any // of the context of the transaction's last statement; see WithNote
	Table         string
	Before, After *Record
	server        *Server
}

// Get returns a committed row by its key, or nil.
func (c Change) Get(table string, key ...any) *Record { return c.server.get(table, key...) }

// Server is a database server.
type Server struct {
	cfg Config

	mu       sync.Mutex
	tables   map[string]*table
	views    map[string]string
	parsed   map[string]*statement
	sessions map[*session]struct{}
	down     bool
	readOnly bool
	skew     time.Duration

	// What happened.
	Deadlocks, LockWaits int
}

// New makes a server without tables.
func New(cfg Config) *Server {
	setDefault(&cfg.LockWait, time.Second)
	setDefault(&cfg.IdleWait, 60*time.Second)
	setDefault(&cfg.ReadTimeout, 2*time.Second)
	return &Server{
		cfg: cfg, tables: map[string]*table{}, views: map[string]string{},
		parsed: map[string]*statement{}, sessions: map[*session]struct{}{},
	}
}

func setDefault(d *time.Duration, to time.Duration) {
	if *d == 0 {
		*d = to
	}
}

// Now is the server's clock.
func (s *Server) Now() time.Time { return time.Now().Add(s.skew) }

// Jump moves the server's clock.
func (s *Server) Jump(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew += by
}

// SetReadOnly makes the server refuse writes, and COMMITs of them, or ends that.
func (s *Server) SetReadOnly(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readOnly = on
}

// Stop ends the server as kill -9 does: all connections are lost, and what isn't committed.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = true
	for ses := range s.sessions {
		s.close(ses)
	}
}

// Start ends Stop.
func (s *Server) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
}

// Open counts the connections and transactions that are open.
func (s *Server) Open() (connections, transactions int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ses := range s.sessions {
		if ses.tx != nil {
			transactions++
		}
	}
	return len(s.sessions), transactions
}

// Rows are the committed rows of a table, by key.
func (s *Server) Rows(table string) []*Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[table]
	var out []*Record
	for _, r := range t.order {
		if r.committed != nil {
			out = append(out, t.record(r.committed))
		}
	}
	return out
}

// Row returns a committed row by its key, or nil.
func (s *Server) Row(table string, key ...any) *Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.get(table, key...)
}

func (s *Server) get(table string, key ...any) *Record {
	k := ""
	for _, part := range key {
		switch part := part.(type) {
		case string:
			k += textValue(part).keyPart()
		case int64:
			k += intValue(part).keyPart()
		}
	}
	t := s.tables[table]
	if r := t.rows[k]; r != nil {
		return t.record(r.committed)
	}
	return nil
}

// statement parses each text once.
func (s *Server) statement(sql string) (*statement, error) {
	if st := s.parsed[sql]; st != nil {
		return st, nil
	}
	st, err := s.parse(sql)
	if err != nil {
		return nil, &mysql.MySQLError{Number: 1064, Message: "You have an error in your SQL syntax: " + err.Error()}
	}
	s.parsed[sql] = st
	return st, nil
}
