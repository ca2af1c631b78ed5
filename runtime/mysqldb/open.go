// Package mysqldb opens MySQL and MariaDB for an outbox, through
// go-sql-driver/mysql.
package mysqldb

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/runtime/mysqlerr"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// ErrSettings is returned for connection settings under which the promise can't be kept.
var ErrSettings = errors.New("the connection's settings can't be used for an outbox")

// lockWait is the server variable that bounds how long a statement waits for a lock.
const lockWait = "innodb_lock_wait_timeout"

// Open opens a pool from a DSN of go-sql-driver/mysql, as sql.Open("mysql", dsn)
// does, and connects to nothing yet. See [Connector] for what it asks of the DSN.
func Open(dsn string) (*outbox.DB, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		// The driver's error may quote the DSN, and with it the password.
		return nil, errors.New("the DSN is not of the form user:password@tcp(host:port)/database?readTimeout=10s&writeTimeout=10s")
	}
	return OpenConfig(cfg)
}

// OpenConfig opens a pool from a driver configuration; see [Connector].
func OpenConfig(cfg *mysql.Config) (*outbox.DB, error) {
	connector, err := Connector(cfg)
	if err != nil {
		return nil, err
	}
	return Wrap(sql.OpenDB(connector)), nil
}

// Wrap takes a pool that was opened on a [Connector], such as through an
// instrumented driver. On a pool that was opened in any other way, an
// error that database/sql swallows can split a transaction.
func Wrap(pool *sql.DB) *outbox.DB { return outbox.NewDB(pool, mysqlerr.Classifier{}) }

// Connector makes connections on which a transaction that the server has ended
// can only be rolled back. It refuses with [ErrSettings]:
//
//   - no ReadTimeout or WriteTimeout: the driver's Commit obeys no context, so that
//     nothing else bounds it when the network swallows the reply;
//   - MultiStatements: a COMMIT could hide in a statement;
//   - a charset or collation other than utf8mb4: the server would change payloads.
//
// Where the configuration doesn't set innodb_lock_wait_timeout it is set, for
// the connections made, to half the ReadTimeout, at least one second. The
// server's own default of 50 s would let the ReadTimeout cut connections that
// only wait for a lock.
func Connector(cfg *mysql.Config) (driver.Connector, error) {
	cfg = cfg.Clone()
	if err := checkSettings(cfg); err != nil {
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
	return guardConnector{connector}, nil
}

func checkSettings(cfg *mysql.Config) error {
	refuse := func(reason string) error { return fmt.Errorf("%w: %s", ErrSettings, reason) }
	switch {
	case cfg.ReadTimeout <= 0:
		return refuse("readTimeout is not set, and nothing else bounds a COMMIT; add readTimeout=10s to the DSN")
	case cfg.WriteTimeout <= 0:
		return refuse("writeTimeout is not set, and nothing else bounds a COMMIT; add writeTimeout=10s to the DSN")
	case cfg.MultiStatements:
		return refuse("multiStatements is set, and a COMMIT could hide in a statement; remove it from the DSN")
	case cfg.Collation != "" && !isUTF8(cfg.Collation):
		return refuse("the collation is not one of utf8mb4, and payloads would be changed; remove it from the DSN")
	}
	for _, charset := range charsets(cfg) {
		if charset != "utf8mb4" {
			return refuse("the charset is not utf8mb4, and payloads would be changed; remove it from the DSN")
		}
	}
	return nil
}

func isUTF8(collation string) bool { return strings.HasPrefix(strings.ToLower(collation), "utf8mb4_") }

// charsets are those that the configuration would try in turn. The driver shows
// them nowhere but in the DSN.
func charsets(cfg *mysql.Config) []string {
	dsn := cfg.FormatDSN()
	_, query, _ := strings.Cut(dsn[strings.LastIndexByte(dsn, '/')+1:], "?")
	params, err := url.ParseQuery(query)
	if err != nil || params.Get("charset") == "" {
		return nil
	}
	return strings.Split(strings.ToLower(params.Get("charset")), ",")
}
