package doctor

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/runtime/mysqldb"
)

// longIdle is for how long a vanished machine's transaction may keep its locks.
const longIdle = 10 * time.Minute

// serviceDSNs looks at how the service connects. No part of a DSN but its address is printed.
func (l *look) serviceDSNs() {
	for _, text := range l.cfg.ServiceDSNs {
		cfg, err := mysql.ParseDSN(text)
		if err != nil {
			l.fail("dsn-refused", "the service's DSN can't be read", "it has the form user:password@tcp(host:3306)/database?readTimeout=10s&writeTimeout=10s")
			continue
		}
		s := dsnLook{l, cfg, fmt.Sprintf("the service's DSN (%s/%s): ", cfg.Addr, cfg.DBName)}
		s.refused()
		s.waits()
		s.variables()
		s.speed()
	}
	if len(l.cfg.ServiceDSNs) == 0 {
		l.miss("the service's own DSN", "--service-dsn names it")
		return
	}
	l.report.Looked = append(l.report.Looked, "the service's DSN")
}

type dsnLook struct {
	*look
	cfg  *mysql.Config
	name string
}

func (s dsnLook) refused() {
	for _, objection := range mysqldb.Objections(s.cfg) {
		what, hint, _ := strings.Cut(objection, "; ")
		s.fail("dsn-refused", s.name+what, hint)
	}
}

// seconds is a variable that the DSN sets.
func (s dsnLook) seconds(name string) (time.Duration, bool) {
	n, err := strconv.Atoi(s.cfg.Params[name])
	return time.Duration(n) * time.Second, err == nil
}

func (s dsnLook) waits() {
	if wait, set := s.seconds("innodb_lock_wait_timeout"); set && s.cfg.ReadTimeout > 0 && wait >= s.cfg.ReadTimeout {
		s.warn("dsn-lock-wait", fmt.Sprintf("%sinnodb_lock_wait_timeout is %s, and readTimeout %s: a connection is cut that only waits for a lock, and what became of its transaction isn't known", s.name, wait, s.cfg.ReadTimeout),
			"leave it out: runtime/mysqldb sets half the readTimeout")
	}
	idle, set := s.seconds("wait_timeout")
	switch {
	case set && idle <= mysqldb.MaxIdleTime:
		s.warn("dsn-idle", fmt.Sprintf("%swait_timeout is %s, and pools keep idle connections for %s: they use some that the server has closed", s.name, idle, mysqldb.MaxIdleTime),
			"leave it out: runtime/mysqldb sets 60")
	case set && idle > longIdle:
		s.warn("dsn-idle", fmt.Sprintf("%swait_timeout is %s: for so long the locks stay of a machine that vanished in a transaction", s.name, idle),
			"leave it out: runtime/mysqldb sets 60")
	}
}

func (s dsnLook) variables() {
	if v := strings.Trim(s.cfg.Params["autocommit"], "'"); v == "0" || strings.EqualFold(v, "off") || strings.EqualFold(v, "false") {
		s.fail("autocommit-off", s.name+"autocommit is off: what is written outside a transaction is never committed", "remove it from the DSN")
	}
	if mode, set := s.cfg.Params["sql_mode"]; set && lax(strings.ToUpper(mode)) {
		s.warn("sql-mode-lax", s.name+"sql_mode isn't strict: a value that doesn't fit its column is cut, not refused", "add STRICT_TRANS_TABLES, or remove it from the DSN")
	}
	if format := strings.Trim(s.cfg.Params["binlog_format"], "'"); strings.EqualFold(format, "statement") {
		s.fail("binlog-statement", s.name+"binlog_format is STATEMENT: at READ COMMITTED every claim and mark fails with error 1665", "remove it from the DSN")
	}
	if n := s.cfg.MaxAllowedPacket; n > 0 && n < packetNeeded {
		s.warn("packet-too-small", fmt.Sprintf("%smaxAllowedPacket is %d bytes: an event with a payload of a megabyte can't be written, or parked", s.name, n), "remove it from the DSN: the driver's default is 64 MiB")
	}
}

func (s dsnLook) speed() {
	if !s.cfg.InterpolateParams {
		s.note("dsn-round-trips", s.name+"interpolateParams is not set: each statement with arguments is prepared first, and takes another two round trips", "add interpolateParams=true to the DSN")
	}
	if s.cfg.Net == "tcp" && !loopback(s.cfg.Addr) && (s.cfg.TLSConfig == "" || s.cfg.TLSConfig == "false") {
		s.note("dsn-not-encrypted", s.name+"the connection is not encrypted: payloads can be read on the way", "add tls=true to the DSN, or the name of a registered TLS configuration")
	}
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
