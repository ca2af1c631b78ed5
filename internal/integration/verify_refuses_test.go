package integration

import (
	"database/sql"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outboxtest"
)

// A database that is used already is refused, and the message says what helps.
func TestVerifyScratch(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		var dsn string
		t.Run("use", func(t *testing.T) {
			dsn = outboxtest.ScratchDatabase(t, server.DSN)
			cfg := soundConfig(t, lanesKind, server)
			cfg.DSN = dsn
			outboxtest.Verify(t, cfg)
			name := dsn[strings.LastIndex(dsn, "/")+1:]
			name, _, _ = strings.Cut(name, "?")
			for _, again := range []struct {
				schema []string
				want   string
			}{
				{cfg.Schema, "already exists; the database " + name + " is not empty: it has tables applied, "},
				{nil, "the database " + name + " is not empty: it has "},
			} {
				cfg.Schema = again.schema
				got := failure(t, func(t testing.TB) { outboxtest.Verify(t, cfg) })
				if !strings.Contains(got, again.want) || !strings.Contains(got, "use outboxtest.ScratchDatabase") {
					t.Error(got)
				}
			}
		})
		db, err := sql.Open("mysql", dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var answer *mysql.MySQLError
		if err := db.PingContext(t.Context()); !errors.As(err, &answer) || answer.Number != 1049 {
			t.Errorf("the database is still there: %v", err)
		}
		t.Run("refused", func(t *testing.T) {
			for bad, want := range map[string]string{
				"root:secret@tcp(127.0.0.1:1":   "the DSN is not of the form",
				"root:secret@tcp(127.0.0.1:1)/": "create a database: ",
			} {
				got := failure(t, func(t testing.TB) { outboxtest.ScratchDatabase(t, bad) })
				if !strings.Contains(got, want) || strings.Contains(got, "secret") {
					t.Errorf("%q, want %q", got, want)
				}
			}
		})
	})
}

// A configuration that can't be verified is refused, with everything that is wrong.
func TestVerifyRefuses(t *testing.T) {
	server := dbtest.New(t, dbserver.MySQL)
	for _, c := range []struct {
		spoil func(*outboxtest.Config)
		want  string
	}{
		{func(c *outboxtest.Config) { *c = outboxtest.Config{} }, "Write is missing\nBusiness, the query for business rows, is missing\nNewStore is missing"},
		{func(c *outboxtest.Config) { c.DSN = "root:secret@unix(/tmp/sock)/db" }, "must be for TCP"},
		{func(c *outboxtest.Config) { c.DSN += "&tls=true" }, "without TLS"},
		{func(c *outboxtest.Config) { c.DSN = "root:secret@tcp(127.0.0.1:1" }, "the DSN is not of the form"},
		{func(c *outboxtest.Config) { c.Consumers[0].Effects = nil }, "Consumers[0] lacks New or Effects"},
		{func(c *outboxtest.Config) { c.Publisher = losing{} }, "Publisher and Subscribe go together"},
		{func(c *outboxtest.Config) { c.Private = []string{""} }, "a value of Private is empty"},
		{func(c *outboxtest.Config) { c.Lease = time.Millisecond }, "Lease is below 1s"},
		{func(c *outboxtest.Config) { c.Patience = time.Second }, "Patience is not above two leases"},
		{func(c *outboxtest.Config) { c.Schema = []string{"CREATE NONSENSE"} }, "run Schema: "},
		{func(c *outboxtest.Config) { c.Schema = c.Schema[len(c.Schema)-2:] }, "the database has no table outbox_event"},
	} {
		cfg := soundConfig(t, lanesKind, server)
		c.spoil(&cfg)
		got := failure(t, func(t testing.TB) { outboxtest.Verify(t, cfg) })
		if !strings.Contains(got, c.want) || strings.Contains(got, "secret") {
			t.Errorf("%q, want %q", got, c.want)
		}
		if _, err := os.Stat(cfg.Record); err == nil && cfg.Record != "" {
			t.Error("there is a record")
		}
	}
}
