package outboxtest

import (
	"errors"
	"testing"

	"github.com/outboxgen/outboxgen/internal/scratchdb"
)

// ScratchDatabase creates an empty database under a name that nobody else uses, on the server
// of a DSN such as user:password@tcp(127.0.0.1:3306)/, and returns the DSN of it. It drops it
// when the test ends, and fails the test when a transaction is open on it then. The user must be
// allowed to create and drop databases; a database that dsn names isn't touched.
func ScratchDatabase(t testing.TB, dsn string) string {
	t.Helper()
	db, err := scratchdb.Create(dsn)
	if errors.Is(err, scratchdb.ErrDSN) {
		t.Fatalf("outboxtest.ScratchDatabase: %v", err)
	}
	if err != nil {
		t.Fatalf("outboxtest.ScratchDatabase: create a database: %v; the DSN's user must be allowed to create and drop databases", err)
	}
	t.Cleanup(func() {
		if err := db.Drop(); err != nil {
			t.Errorf("outboxtest.ScratchDatabase: drop the database %s: %v", db.Name, err)
		}
	})
	return db.DSN
}
