package mysqlproxy_test

import (
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
)

// TestAnswer has the second insert answered with an error, and looks at what the server has
// left of the transaction.
func TestAnswer(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		server.Exec(t, "CREATE TABLE t (n INT)")
		for _, c := range []struct {
			err  mysqlproxy.ServerError
			want int // rows after a COMMIT all the same
		}{
			{mysqlproxy.ServerError{Number: 1213, State: "40001", Message: "deadlock", RollsBack: true}, 1},
			{mysqlproxy.ServerError{Number: 1205, State: "HY000", Message: "lock wait"}, 2},
		} {
			server.Exec(t, "DELETE FROM t")
			proxy := mysqlproxy.Start(t, server.Addr)
			fault := proxy.Arm(mysqlproxy.Rule{
				Action: mysqlproxy.Answer, Match: mysqlproxy.Has("INSERT"), Nth: 2, Error: c.err,
			})
			via := server
			cfg := server.Config()
			cfg.Addr = proxy.Addr()
			via.DSN = cfg.FormatDSN()
			db := via.Open(t)
			db.SetMaxOpenConns(1)
			var answered *mysql.MySQLError
			for n, statement := range []string{
				"START TRANSACTION", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)", "INSERT INTO t VALUES (3)", "COMMIT",
			} {
				_, err := db.ExecContext(t.Context(), statement)
				if n != 2 && err != nil || n == 2 && (!errors.As(err, &answered) || answered.Number != c.err.Number || answered.Message != c.err.Message) {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			<-fault.Done
			var rows int
			if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM t").Scan(&rows); err != nil || rows != c.want {
				t.Errorf("after %d: %d rows, want %d: %v", c.err.Number, rows, c.want, err)
			}
		}
	})
}
