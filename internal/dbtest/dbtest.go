// Package dbtest gives a test a fresh schema on a running MySQL and MariaDB
// server. The servers come from `make test` (see internal/dbserver) or are
// your own: see dbserver.Flavor.EnvVar.
package dbtest

import (
	"database/sql"
	"errors"
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/scratchdb"
)

// Database is a schema of a test's own, empty at first, with utf8mb4 as its
// character set, and dropped when the test ends.
type Database struct {
	Flavor dbserver.Flavor
	Name   string // of the schema
	DSN    string // of go-sql-driver/mysql, with Name as its database
	Addr   string // host:port of the server, to put a proxy in front of it
}

// Each runs fn as a subtest a flavor, "mysql" and "mariadb", each with a
// fresh schema. fn may call t.Parallel.
func Each(t *testing.T, fn func(t *testing.T, db Database)) {
	t.Helper()
	for _, f := range dbserver.Flavors() {
		t.Run(string(f), func(t *testing.T) { fn(t, New(t, f)) })
	}
}

// New makes a fresh schema on the flavor's shared server.
func New(t testing.TB, f dbserver.Flavor) Database {
	t.Helper()
	dsn := os.Getenv(f.EnvVar())
	if dsn == "" {
		t.Fatalf("this test needs a %v server: run `make test`, which starts one,"+
			" or set %s to a DSN such as user:password@tcp(127.0.0.1:3306)/?readTimeout=30s&writeTimeout=30s", f, f.EnvVar())
	}
	return On(t, f, dsn)
}

// On makes a fresh schema on the server that dsn names: one that the test
// started itself, to kill it for example. The user must be allowed to create
// and drop databases.
func On(t testing.TB, f dbserver.Flavor, dsn string) Database {
	t.Helper()
	db, err := scratchdb.Create(dsn)
	if err != nil {
		t.Fatalf("create a schema on %v: %v", f, err)
	}
	t.Cleanup(func() { drop(t, db) })
	return Database{Flavor: f, Name: db.Name, DSN: db.DSN, Addr: db.Addr}
}

// drop fails the test only for what the test did wrong: a server that it
// killed is its own business.
func drop(t testing.TB, db *scratchdb.Database) {
	switch err := db.Drop(); {
	case err == nil:
	case errors.Is(err, scratchdb.ErrOpenTransaction):
		t.Errorf("drop the schema %s: %v", db.Name, err)
	default:
		t.Logf("drop the schema %s: %v", db.Name, err)
	}
}

// Config is the DSN as a new configuration, to change before it is used.
func (d Database) Config() *mysql.Config {
	cfg, err := mysql.ParseDSN(d.DSN)
	if err != nil {
		panic("dbtest: its own DSN does not parse") // FormatDSN made it
	}
	return cfg
}

// Open returns a pool on the schema, closed when the test ends.
func (d Database) Open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", d.DSN)
	if err != nil {
		t.Fatalf("open %s: %v", d.Name, err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close %s: %v", d.Name, err)
		}
	})
	return db
}

// Exec runs statements in order, each on its own, on a connection of its own.
func (d Database) Exec(t testing.TB, stmts ...string) {
	t.Helper()
	if err := scratchdb.Exec(d.Config(), stmts...); err != nil {
		t.Fatalf("exec on %v: %v", d.Flavor, err)
	}
}
