package mysqlproxy_test

import (
	"testing"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
)

// A severed client has neither its other connections nor a new one; what the server did
// for it before stays.
func TestSever(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		server.Exec(t, "CREATE TABLE t (n INT)")
		for action, want := range map[mysqlproxy.Action]int{mysqlproxy.CutRequest: 0, mysqlproxy.CutReply: 1} {
			server.Exec(t, "DELETE FROM t")
			proxy := mysqlproxy.Start(t, server.Addr)
			fault := proxy.Arm(mysqlproxy.Rule{Action: action, Match: mysqlproxy.Has("INSERT"), Sever: true})
			via := server
			cfg := server.Config()
			cfg.Addr = proxy.Addr()
			via.DSN = cfg.FormatDSN()
			db := via.Open(t)
			other, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			if _, err := db.ExecContext(t.Context(), "INSERT INTO t VALUES (1)"); err == nil {
				t.Error("the statement was answered")
			}
			<-fault.Hit
			if other.PingContext(t.Context()) == nil || db.PingContext(t.Context()) == nil {
				t.Error("there is still a connection")
			}
			var rows int
			if err := server.Open(t).QueryRowContext(t.Context(), "SELECT COUNT(*) FROM t").Scan(&rows); err != nil || rows != want {
				t.Errorf("action %d: %d rows, want %d (%v)", action, rows, want, err)
			}
		}
	})
}
