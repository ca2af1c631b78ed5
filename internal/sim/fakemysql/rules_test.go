package fakemysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/sim/fakemysql"
)

// step is a statement of a transaction. When it can't end before others it is said to wait, and ends
// at a later step.
type step struct {
	tx   string
	sql  string // begin, commit, rollback, or a statement
	want string // rows, a number of rows changed, an error's number, "waits", or the waits that end now: "b: …"
}

const rulesTable = `CREATE TABLE thing (id BIGINT NOT NULL, n BIGINT NOT NULL DEFAULT 0, PRIMARY KEY (id)) ENGINE=InnoDB`

// rules are scenarios that both the servers and the simulated one must play.
var rules = map[string][]step{
	"an uncommitted change is not seen": {
		{"a", "begin", ""}, {"a", "UPDATE thing SET n = 5 WHERE id = 1", "1"},
		{"a", "SELECT n FROM thing WHERE id = 1", "[5]"}, {"b", "begin", ""}, {"b", "SELECT n FROM thing WHERE id = 1", "[0]"},
		{"a", "commit", ""}, {"b", "SELECT n FROM thing WHERE id = 1", "[5]"}, {"b", "commit", ""},
	},
	"a writer waits for a writer": {
		{"a", "begin", ""}, {"a", "UPDATE thing SET n = n + 1 WHERE id = 1", "1"},
		{"b", "begin", ""}, {"b", "UPDATE thing SET n = n + 1 WHERE id = 1", "waits"},
		{"a", "commit", "b: 1"}, {"b", "commit", ""}, {"c", "SELECT n FROM thing WHERE id = 1", "[2]"},
	},
	"a locking read waits, and sees what is committed then": {
		{"a", "begin", ""}, {"a", "UPDATE thing SET n = 7 WHERE id = 1", "1"},
		{"b", "begin", ""}, {"b", "SELECT n FROM thing WHERE id = 1 LOCK IN SHARE MODE", "waits"},
		{"a", "commit", "b: [7]"}, {"b", "commit", ""},
	},
	"a locking read of an uncommitted row waits for its end": {
		{"a", "begin", ""}, {"a", "INSERT INTO thing (id, n) VALUES (9, 1)", "1"},
		{"b", "begin", ""}, {"b", "SELECT n FROM thing WHERE id = 9 LOCK IN SHARE MODE", "waits"},
		{"a", "rollback", "b: []"}, {"b", "commit", ""},
	},
	"skip locked": {
		{"a", "begin", ""}, {"a", "SELECT id FROM thing WHERE id IN (1, 2) ORDER BY id FOR UPDATE", "[1 2]"},
		{"b", "begin", ""}, {"b", "SELECT id FROM thing WHERE id IN (1, 2, 3) ORDER BY id FOR UPDATE SKIP LOCKED", "[3]"},
		{"a", "commit", ""}, {"b", "SELECT id FROM thing WHERE id IN (1, 2, 3) ORDER BY id FOR UPDATE SKIP LOCKED", "[1 2 3]"}, {"b", "commit", ""},
	},
	"share locks go together": {
		{"a", "begin", ""}, {"a", "SELECT n FROM thing WHERE id = 1 LOCK IN SHARE MODE", "[0]"},
		{"b", "begin", ""}, {"b", "SELECT n FROM thing WHERE id = 1 LOCK IN SHARE MODE", "[0]"},
		{"c", "begin", ""}, {"c", "UPDATE thing SET n = 3 WHERE id = 1", "waits"},
		{"a", "commit", ""}, {"b", "commit", "c: 1"}, {"c", "commit", ""},
	},
	"a second insert of a key waits, and is a duplicate": {
		{"a", "begin", ""}, {"a", "INSERT INTO thing (id, n) VALUES (9, 1)", "1"},
		{"b", "begin", ""}, {"b", "INSERT INTO thing (id, n) VALUES (9, 2)", "waits"},
		{"a", "commit", "b: 1062"}, {"b", "UPDATE thing SET n = 4 WHERE id = 2", "1"}, {"b", "commit", ""},
		{"c", "SELECT n FROM thing WHERE id IN (2, 9) ORDER BY id", "[4 1]"},
	},
	"a second insert of a key goes on after a rollback": {
		{"a", "begin", ""}, {"a", "INSERT INTO thing (id, n) VALUES (9, 1)", "1"},
		{"b", "begin", ""}, {"b", "INSERT INTO thing (id, n) VALUES (9, 2)", "waits"},
		{"a", "rollback", "b: 1"}, {"b", "commit", ""}, {"c", "SELECT n FROM thing WHERE id = 9", "[2]"},
	},
	"an insert or update waits, and updates": {
		{"a", "begin", ""}, {"a", "INSERT INTO thing (id, n) VALUES (9, 1) ON DUPLICATE KEY UPDATE n = n + 10", "1"},
		{"b", "begin", ""}, {"b", "INSERT INTO thing (id, n) VALUES (9, 1) ON DUPLICATE KEY UPDATE n = n + 10", "waits"},
		{"a", "commit", "b: 2"}, {"b", "commit", ""}, {"c", "SELECT n FROM thing WHERE id = 9", "[11]"},
	},
	"a circle of waits is a deadlock, and the one that is rolled back has lost its changes": {
		{"a", "begin", ""}, {"a", "UPDATE thing SET n = 1 WHERE id = 1", "1"}, {"a", "UPDATE thing SET n = 1 WHERE id = 3", "1"},
		{"b", "begin", ""}, {"b", "UPDATE thing SET n = 2 WHERE id = 2", "1"},
		{"a", "UPDATE thing SET n = 1 WHERE id = 2", "waits"},
		{"b", "UPDATE thing SET n = 2 WHERE id = 1", "1213, a: 1"}, {"b", "commit", ""}, {"a", "commit", ""},
		{"c", "SELECT n FROM thing WHERE id IN (1, 2, 3) ORDER BY id", "[1 1 1]"},
	},
	"a lock wait ends, and the transaction goes on": {
		{"a", "begin", ""}, {"a", "UPDATE thing SET n = 1 WHERE id = 1", "1"},
		{"b", "begin", ""}, {"b", "UPDATE thing SET n = 2 WHERE id = 2", "1"}, {"b", "UPDATE thing SET n = 2 WHERE id = 1", "1205"},
		{"b", "commit", ""}, {"a", "rollback", ""}, {"c", "SELECT n FROM thing WHERE id IN (1, 2) ORDER BY id", "[0 2]"},
	},
	"a condition is tried again after a wait": {
		{"a", "begin", ""}, {"a", "UPDATE thing SET n = 5 WHERE id = 1 AND n = 0", "1"},
		{"b", "begin", ""}, {"b", "UPDATE thing SET n = 6 WHERE id = 1 AND n = 0", "waits"},
		{"a", "commit", "b: 0"}, {"b", "commit", ""},
	},
	"a deleted key can be inserted again": {
		{"a", "begin", ""}, {"a", "DELETE FROM thing WHERE id = 1", "1"}, {"a", "INSERT INTO thing (id, n) VALUES (1, 8)", "1"},
		{"b", "SELECT n FROM thing WHERE id = 1", "[0]"}, {"a", "commit", ""}, {"b", "SELECT n FROM thing WHERE id = 1", "[8]"},
	},
}

// stage plays scenarios.
type stage struct {
	pool    *sql.DB
	blocked func(t *testing.T, conn int64) bool // the connection's statement waits for a lock
	actors  map[string]*player
}

type player struct {
	conn *sql.Conn
	id   int64
	tx   *sql.Tx
	done chan string // of a statement under way
}

func (s *stage) player(t *testing.T, name string) *player {
	p := s.actors[name]
	if p == nil {
		conn, err := s.pool.Conn(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		p = &player{conn: conn, done: make(chan string, 1)}
		t.Cleanup(func() {
			if p.tx != nil {
				_ = p.tx.Rollback() // or the connection would wait for it for ever
			}
			_ = conn.Close()
		})
		_ = conn.QueryRowContext(context.Background(), "SELECT CONNECTION_ID()").Scan(&p.id) // the simulated one has none
		s.actors[name] = p
	}
	return p
}

func (s *stage) play(t *testing.T, steps []step) {
	ctx := context.Background()
	for _, st := range steps {
		p := s.player(t, st.tx)
		switch st.sql {
		case "begin":
			tx, err := p.conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
			if err != nil {
				t.Fatal(err)
			}
			p.tx = tx
		case "commit":
			_ = p.tx.Commit() // of one that the server has ended, too
			p.tx = nil
		case "rollback":
			_ = p.tx.Rollback()
			p.tx = nil
		default:
			run := querier(p.conn)
			if p.tx != nil {
				run = p.tx
			}
			go func() { p.done <- answer(ctx, run, st.sql) }()
		}
		if st.want != "" {
			for _, want := range strings.Split(st.want, ", ") {
				name, result, other := strings.Cut(want, ": ")
				if !other {
					name, result = st.tx, want
				}
				if got := s.result(t, s.player(t, name), result == "waits"); got != result {
					t.Fatalf("%s: %s: %s got %q, want %q", st.tx, st.sql, name, got, result)
				}
			}
		}
	}
}

// result waits for the end of a statement, or for its wait for a lock.
func (s *stage) result(t *testing.T, p *player, wait bool) string {
	for end := time.Now().Add(20 * time.Second); wait && time.Now().Before(end); {
		if s.blocked(t, p.id) {
			return "waits"
		}
		select {
		case result := <-p.done:
			return result
		default:
		}
	}
	select {
	case result := <-p.done:
		return result
	case <-time.After(20 * time.Second):
		return "nothing"
	}
}

type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func answer(ctx context.Context, q querier, query string) string {
	fail := func(err error) string {
		var server *mysql.MySQLError
		if errors.As(err, &server) {
			return fmt.Sprint(server.Number)
		}
		return err.Error()
	}
	if !strings.HasPrefix(query, "SELECT") {
		r, err := q.ExecContext(ctx, query)
		if err != nil {
			return fail(err)
		}
		n, _ := r.RowsAffected()
		return fmt.Sprint(n)
	}
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = rows.Close() }()
	out := []int64{}
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return fail(err)
		}
		out = append(out, n)
	}
	if err := rows.Err(); err != nil {
		return fail(err)
	}
	return fmt.Sprint(out)
}

var firstRows = "INSERT INTO thing (id, n) VALUES (1, 0), (2, 0), (3, 0)"

func TestRules(t *testing.T) {
	for name, steps := range rules {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := fakemysql.New(fakemysql.Config{})
				if err := server.Apply(rulesTable); err != nil {
					t.Fatal(err)
				}
				pool := sql.OpenDB(server.Connector(&fakemysql.Client{Name: "test"}))
				defer func() { _ = pool.Close() }()
				if _, err := pool.Exec(firstRows); err != nil {
					t.Fatal(err)
				}
				before := server.LockWaits
				blocked := func(*testing.T, int64) bool {
					synctest.Wait()
					waits := server.LockWaits > before
					before = server.LockWaits
					return waits
				}
				(&stage{pool, blocked, map[string]*player{}}).play(t, steps)
			})
		})
	}
}

// What the simulated server does is what the real ones do.
func TestRulesOfServers(t *testing.T) {
	for _, flavor := range dbserver.Flavors() {
		for name, steps := range rules {
			t.Run(flavor.String()+"/"+name, func(t *testing.T) { // one after the other: see blocked
				server := dbtest.New(t, flavor)
				server.Exec(t, rulesTable, firstRows)
				cfg, err := mysql.ParseDSN(server.DSN)
				if err != nil {
					t.Fatal(err)
				}
				if cfg.Params == nil {
					cfg.Params = map[string]string{}
				}
				cfg.Params["innodb_lock_wait_timeout"] = "20"
				if slices.ContainsFunc(steps, func(s step) bool { return s.want == "1205" }) {
					cfg.Params["innodb_lock_wait_timeout"] = "4" // time enough to see that it waits
				}
				connector, err := mysql.NewConnector(cfg)
				if err != nil {
					t.Fatal(err)
				}
				pool := sql.OpenDB(connector)
				defer func() { _ = pool.Close() }()
				// The server makes this list anew when nobody has read it for 100 ms (TRX_I_S).
				blocked := func(t *testing.T, conn int64) bool {
					time.Sleep(400 * time.Millisecond) // other tests read it, too
					var n int
					const query = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND trx_mysql_thread_id = ?"
					if err := pool.QueryRow(query, conn).Scan(&n); err != nil {
						t.Fatal(err)
					}
					return n > 0
				}
				(&stage{pool, blocked, map[string]*player{}}).play(t, steps)
			})
		}
	}
}
