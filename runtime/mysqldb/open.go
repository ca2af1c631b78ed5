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

// The server's variables that are set for each connection, unless the
// configuration sets them.
const (
	lockWait = "innodb_lock_wait_timeout" // how long a statement waits for a lock
	idleWait = "wait_timeout"             // how long the server waits for a statement
)

// defaultIdleWait is how long the locks of a process stay that stopped, or whose
// machine vanished, in the middle of a transaction. The server's own default is
// eight hours: for so long the events that it was claiming would be passed over.
const defaultIdleWait = 60 * time.Second

// MaxIdleTime is how long the pools of [Open] keep an idle connection: less than the server does.
const MaxIdleTime = defaultIdleWait / 2

// idleConns is how many idle connections a pool keeps, for half a minute.
// database/sql's own 2 are too few for a relay's batches in flight: connections
// would be closed and opened all the time.
const idleConns = 16

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
	pool := sql.OpenDB(connector)
	pool.SetConnMaxIdleTime(MaxIdleTime)
	pool.SetMaxIdleConns(idleConns)
	return Wrap(pool), nil
}

// Wrap takes a pool that was opened on a [Connector], such as through an
// instrumented driver. On a pool that was opened in any other way, an
// error that database/sql swallows can split a transaction. Set the pool's
// ConnMaxIdleTime to less than wait_timeout, 30 s with the default.
func Wrap(pool *sql.DB) *outbox.DB { return outbox.NewDB(pool, mysqlerr.Classifier{}) }

// Connector makes connections on which a transaction that the server has ended
// can only be rolled back. It refuses with [ErrSettings]:
//
//   - no ReadTimeout or WriteTimeout: the driver's Commit obeys no context, so that
//     nothing else bounds it when the network swallows the reply;
//   - MultiStatements: a COMMIT could hide in a statement;
//   - a charset or collation other than utf8mb4: the server would change payloads.
//
// Two of the server's variables are set for the connections made, where the
// configuration doesn't set them. innodb_lock_wait_timeout becomes half the
// ReadTimeout, at least one second: the server's own 50 s would let the
// ReadTimeout cut connections that only wait for a lock. wait_timeout becomes
// 60 s, which bounds how long a transaction may do nothing: the server's own
// eight hours is how long it would keep the locks of a process that stopped, or
// of a machine that vanished, in the middle of a claim.
func Connector(cfg *mysql.Config) (driver.Connector, error) {
	cfg = cfg.Clone()
	if err := checkSettings(cfg); err != nil {
		return nil, err
	}
	setDefault(cfg, lockWait, max(time.Second, cfg.ReadTimeout/2))
	setDefault(cfg, idleWait, defaultIdleWait)
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	return guardConnector{connector}, nil
}

func setDefault(cfg *mysql.Config, variable string, value time.Duration) {
	if _, set := cfg.Params[variable]; set {
		return
	}
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params[variable] = strconv.Itoa(int(value / time.Second))
}

func checkSettings(cfg *mysql.Config) error {
	if objections := Objections(cfg); len(objections) > 0 {
		return fmt.Errorf("%w: %s", ErrSettings, objections[0])
	}
	return nil
}

// Objections are the reasons for which [Connector] refuses a configuration, each with what to do
// about it; none where it takes it.
func Objections(cfg *mysql.Config) []string {
	var out []string
	if cfg.ReadTimeout <= 0 {
		out = append(out, "readTimeout is not set, and nothing else bounds a COMMIT; add readTimeout=10s to the DSN")
	}
	if cfg.WriteTimeout <= 0 {
		out = append(out, "writeTimeout is not set, and nothing else bounds a COMMIT; add writeTimeout=10s to the DSN")
	}
	if cfg.MultiStatements {
		out = append(out, "multiStatements is set, and a COMMIT could hide in a statement; remove it from the DSN")
	}
	if cfg.Collation != "" && !isUTF8(cfg.Collation) {
		out = append(out, "the collation is not one of utf8mb4, and payloads would be changed; remove it from the DSN")
	}
	for _, charset := range charsets(cfg) {
		if charset != "utf8mb4" {
			return append(out, "the charset is not utf8mb4, and payloads would be changed; remove it from the DSN")
		}
	}
	return out
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
