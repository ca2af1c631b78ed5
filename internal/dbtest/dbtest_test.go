package dbtest_test

import (
	"testing"

	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
)

func TestEach(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		db.Exec(t, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
		var n int
		var schema string
		if err := db.Open(t).QueryRow("SELECT COUNT(*), DATABASE() FROM t").Scan(&n, &schema); err != nil {
			t.Fatal(err)
		}
		if n != 2 || schema != db.Name {
			t.Errorf("got %d rows in %s, want 2 in %s", n, schema, db.Name)
		}
		if cfg := db.Config(); cfg.Addr != db.Addr || cfg.DBName != db.Name {
			t.Errorf("configuration for %s at %s, want %s at %s", cfg.DBName, cfg.Addr, db.Name, db.Addr)
		}
		other := dbtest.New(t, db.Flavor)
		other.Exec(t, "CREATE TABLE t (id INT PRIMARY KEY)") // not the same schema
	})
}

// A schema is gone after its test, so that a shared server stays small.
func TestDropped(t *testing.T) {
	var left dbtest.Database
	t.Run("use", func(t *testing.T) { left = dbtest.New(t, dbserver.MySQL) })
	var n int
	err := dbtest.New(t, dbserver.MySQL).Open(t).
		QueryRow("SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = ?", left.Name).Scan(&n)
	if err != nil || n != 0 {
		t.Errorf("the schema %s is still there (%d, %v)", left.Name, n, err)
	}
}
