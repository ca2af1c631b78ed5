// Package scratchdb makes databases for one use on a running server.
package scratchdb

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Database is a database of a name that nobody else uses.
type Database struct {
	Name string
	DSN  string // of go-sql-driver/mysql, with Name as its database
	Addr string // host:port of the server

	admin *mysql.Config
}

// ErrDSN is what Create returns for a DSN that the driver can't read. The driver's own error
// may quote the password.
var ErrDSN = errors.New("the DSN is not of the form user:password@tcp(host:port)/")

// ErrOpenTransaction is what Drop returns when a transaction of somebody's is open on the database.
var ErrOpenTransaction = errors.New("a transaction was left open")

// Create makes an empty database with utf8mb4 as its character set on the server that dsn
// names. The user must be allowed to create and drop databases.
func Create(dsn string) (*Database, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, ErrDSN
	}
	random := make([]byte, 6)
	_, _ = rand.Read(random) // never fails
	name := "outboxgen_test_" + hex.EncodeToString(random)

	cfg.DBName = ""
	admin := cfg.Clone()
	if err := Exec(admin, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
		return nil, err
	}
	cfg.DBName = name
	return &Database{Name: name, DSN: cfg.FormatDSN(), Addr: cfg.Addr, admin: admin}, nil
}

// Drop drops the database with all that is in it.
func (d *Database) Drop() error {
	// Without the bound a forgotten transaction makes DROP wait for a day
	// (MariaDB) or a year (MySQL).
	err := Exec(d.admin, "SET SESSION lock_wait_timeout = 10", "DROP DATABASE "+d.Name)
	var answer *mysql.MySQLError
	if errors.As(err, &answer) && answer.Number == 1205 {
		return errors.Join(ErrOpenTransaction, err)
	}
	return err
}

// Exec runs statements in order, each on its own, on a connection that is closed then.
func Exec(cfg *mysql.Config, stmts ...string) error {
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, stmt := range stmts {
		if _, err := conn.ExecContext(ctx, stmt); err != nil {
			return err
		}
	}
	return nil
}
