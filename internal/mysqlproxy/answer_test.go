package mysqlproxy_test

import (
	"errors"
	"fmt"
	"slices"
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

// TestAfter has the second statement after an insert fail, however it is sent, and tells what
// followed the insert in its transaction.
func TestAfter(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		server.Exec(t, "CREATE TABLE t (n INT)")
		proxy := mysqlproxy.Start(t, server.Addr)
		via := server
		cfg := server.Config()
		cfg.Addr = proxy.Addr()
		via.DSN = cfg.FormatDSN()
		db := via.Open(t)
		fault := proxy.Arm(mysqlproxy.Rule{
			Action: mysqlproxy.Answer, After: mysqlproxy.Has("VALUES (1)"), Match: mysqlproxy.Has("t"), Nth: 2,
			Error: mysqlproxy.ServerError{Number: 1406, State: "22001", Message: "too long"},
		})
		answer := func(err error) (number uint16) {
			var answered *mysql.MySQLError
			if errors.As(err, &answered) {
				number = answered.Number
			}
			return number
		}
		for n, want := range []uint16{0, 0, 1406} { // the first two don't insert the 1
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, statement := range []string{fmt.Sprintf("INSERT INTO t VALUES (%d)", n/2), "UPDATE t SET n = 3"} {
				if _, err := tx.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			statement, err := tx.PrepareContext(t.Context(), "SELECT n FROM t")
			if answer(err) != want {
				t.Errorf("transaction %d: %v, want %d", n, err, want)
			}
			if err == nil {
				_ = statement.Close()
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
		}
		<-fault.Done
		want := []string{"UPDATE t SET n = 3", "SELECT n FROM t"}
		if got := proxy.Following(mysqlproxy.Has("VALUES (1)")); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if got := proxy.Following(mysqlproxy.Has("VALUES (2)")); got != nil {
			t.Errorf("%q after what never came", got)
		}
	})
}
