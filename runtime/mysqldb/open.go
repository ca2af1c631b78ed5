// Package mysqldb opens MySQL and MariaDB for an outbox, through
// go-sql-driver/mysql.
package mysqldb

import (
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/runtime/mysqlerr"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// ErrSettings is returned for a DSN under which the promise can't be kept.
var ErrSettings = errors.New("the connection's settings don't allow a bounded commit")

// lockWait is the server variable that bounds how long a statement waits for a lock.
const lockWait = "innodb_lock_wait_timeout"

// Open opens a pool from a DSN of go-sql-driver/mysql, as sql.Open("mysql", dsn)
// does, and connects to nothing yet. See [OpenConfig] for what it asks of the DSN.
func Open(dsn string) (*outbox.DB, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		// The driver's error may quote the DSN, and with it the password.
		return nil, errors.New("the DSN is not of the form user:password@tcp(host:port)/database?readTimeout=10s&writeTimeout=10s")
	}
	return OpenConfig(cfg)
}

// OpenConfig opens a pool from a driver configuration.
//
// ReadTimeout and WriteTimeout must be set: the driver's Commit obeys no context,
// so that nothing else bounds it when the network swallows the reply.
//
// Where the configuration doesn't set innodb_lock_wait_timeout it is set, for
// this pool's sessions, to half the ReadTimeout, at least one second. The
// server's own default of 50 s would let the ReadTimeout cut connections that
// only wait for a lock.
func OpenConfig(cfg *mysql.Config) (*outbox.DB, error) {
	cfg = cfg.Clone()
	if err := checkTimeouts(cfg); err != nil {
		return nil, err
	}
	if _, set := cfg.Params[lockWait]; !set {
		if cfg.Params == nil {
			cfg.Params = map[string]string{}
		}
		seconds := max(1, int(cfg.ReadTimeout/2/time.Second))
		cfg.Params[lockWait] = strconv.Itoa(seconds)
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	return outbox.NewDB(sql.OpenDB(connector), mysqlerr.Classifier{}), nil
}

// Wrap takes a pool that was opened elsewhere, such as through an instrumented
// driver, and the configuration that it was opened with, which is checked as by
// [OpenConfig] and can no longer be changed.
func Wrap(pool *sql.DB, cfg *mysql.Config) (*outbox.DB, error) {
	if err := checkTimeouts(cfg); err != nil {
		return nil, err
	}
	return outbox.NewDB(pool, mysqlerr.Classifier{}), nil
}

func checkTimeouts(cfg *mysql.Config) error {
	switch {
	case cfg.ReadTimeout <= 0:
		return fmt.Errorf("%w: readTimeout is not set; add readTimeout=10s to the DSN", ErrSettings)
	case cfg.WriteTimeout <= 0:
		return fmt.Errorf("%w: writeTimeout is not set; add writeTimeout=10s to the DSN", ErrSettings)
	}
	return nil
}
