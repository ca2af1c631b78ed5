package mysqldb_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/sim/fakemysql"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
)

// A server that refuses to end a transaction may have left it open. The connection must
// not be used again: what is written there would be in that transaction.
func TestConnectionWithAnOpenTransactionIsNotKept(t *testing.T) {
	for _, end := range []string{"COMMIT", "ROLLBACK"} {
		t.Run(end, func(t *testing.T) {
			server := fakemysql.New(fakemysql.Config{Wire: func(op fakemysql.Op) (w fakemysql.Wire) {
				if op.Name == end {
					w.Err = &mysql.MySQLError{Number: 1205, Message: "Lock wait timeout exceeded; try restarting transaction"}
				}
				return w
			}})
			if err := server.Apply("CREATE TABLE t (id BIGINT NOT NULL, PRIMARY KEY (id))"); err != nil {
				t.Fatal(err)
			}
			pool := sql.OpenDB(mysqldb.Guard(server.Connector(&fakemysql.Client{Name: "test"})))
			defer func() { _ = pool.Close() }()
			tx, err := pool.BeginTx(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if end == "COMMIT" {
				err = tx.Commit()
			} else {
				err = tx.Rollback()
			}
			if err == nil {
				t.Fatalf("%s did not fail", end)
			}
			if _, err := pool.Exec("INSERT INTO t (id) VALUES (?)", 1); err != nil {
				t.Fatal(err)
			}
			if n := len(server.Rows("t")); n != 1 {
				t.Errorf("%d rows are committed, want 1", n)
			}
		})
	}
}
