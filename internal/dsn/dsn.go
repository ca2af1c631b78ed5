// Package dsn opens the database that somebody names on a command line.
package dsn

import (
	"cmp"
	"database/sql"
	"errors"
	"os"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Variable is the environment variable that is read when no DSN is given: it keeps a
// password out of the list of processes.
const Variable = "OUTBOXGEN_DSN"

// The bounds of connecting and of one answer, where the DSN has none.
const (
	connectTimeout = 10 * time.Second
	answerTimeout  = 30 * time.Second
)

// Error is an error with a way out. It never holds the DSN, which has a password.
type Error struct {
	error
	Hint string
}

// Given reports whether a DSN is in text, a flag's value, or else in the environment.
func Given(text string) bool { return cmp.Or(text, os.Getenv(Variable)) != "" }

// Open opens the database of text, a DSN of go-sql-driver/mysql, or else of the
// environment. It does not connect yet.
func Open(text string) (*sql.DB, error) {
	const form = "user:password@tcp(host:3306)/database"
	if !Given(text) {
		return nil, &Error{errors.New("no database is named"), "set " + Variable + " or --dsn to " + form}
	}
	cfg, err := mysql.ParseDSN(cmp.Or(text, os.Getenv(Variable)))
	if err != nil {
		return nil, &Error{errors.New("the DSN can't be read"), "it has the form " + form}
	}
	if cfg.DBName == "" {
		return nil, &Error{errors.New("the DSN names no database"), "add its name behind the slash: " + form}
	}
	cfg.Logger = &mysql.NopLogger{} // what it would say is in the errors
	cfg.Timeout = cmp.Or(cfg.Timeout, connectTimeout)
	cfg.ReadTimeout = cmp.Or(cfg.ReadTimeout, answerTimeout)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, answerTimeout)
	cfg.ClientFoundRows = false // rows that a statement changed are what commands count
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params["sql_mode"] = "''" // ANSI_QUOTES would change what information_schema says
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, &Error{errors.New("the DSN can't be used"), "it has the form " + form}
	}
	return sql.OpenDB(connector), nil
}
