package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// packetNeeded is how long a packet must be allowed to be, in bytes: a payload of the longest kind, in
// which each quote is escaped, with its headers.
const packetNeeded = 4 << 20

// number is a setting that is one.
func (l *look) number(name string) (int64, bool) {
	n, err := strconv.ParseInt(l.vars[name], 10, 64)
	return n, err == nil
}

func (l *look) on(name string) bool { return isOn(l.vars[name]) }

func isOn(value string) bool { return strings.EqualFold(value, "on") || value == "1" }

func (l *look) settings(context.Context) error {
	l.binlog()
	l.durable()
	l.readOnly()
	if strings.EqualFold(l.vars["autocommit"], "off") || l.vars["autocommit"] == "0" {
		l.fail("autocommit-off", "autocommit is off: what a relay writes outside a transaction, such as that it is alive, is never committed",
			"SET GLOBAL autocommit = ON")
	}
	if isolation := l.isolation(); slices.Contains([]string{"SERIALIZABLE", "READ-UNCOMMITTED"}, isolation) {
		l.note("isolation-default", fmt.Sprintf("transactions are at %s unless they say otherwise: relays and purgers do, the business and the handlers of consumers may not", isolation),
			"READ COMMITTED, or the servers' own REPEATABLE READ, will do for both")
	}
	if !lax(l.vars["sql_mode"]) {
		return l.rest()
	}
	l.warn("sql-mode-lax", "sql_mode has neither STRICT_TRANS_TABLES nor STRICT_ALL_TABLES: a value that doesn't fit its column is cut, not refused",
		"SET GLOBAL sql_mode = CONCAT(@@GLOBAL.sql_mode, ',STRICT_TRANS_TABLES')")
	return l.rest()
}

// lax reports a sql_mode under which values are cut.
func lax(mode string) bool {
	return !strings.Contains(mode, "STRICT_TRANS_TABLES") && !strings.Contains(mode, "STRICT_ALL_TABLES") && !strings.Contains(mode, "TRADITIONAL")
}

func (l *look) isolation() string {
	if v := l.vars["transaction_isolation"]; v != "" {
		return v
	}
	return l.vars["tx_isolation"] // MariaDB before 11.1
}

func (l *look) rest() error {
	if l.on("innodb_rollback_on_timeout") {
		l.note("lock-timeout-rolls-back", "innodb_rollback_on_timeout is on: a wait for a lock that is too long ends the whole transaction, not its statement",
			"nothing to do where transactions go through outbox.InTx; other code must not go on after error 1205")
	}
	if zone := l.zone(); !slices.Contains([]string{"UTC", "GMT", "+00:00", "Etc/UTC", "Etc/GMT", "Universal", "Zulu"}, zone) {
		l.note("server-zone", fmt.Sprintf("the server's time zone is %s: outboxgen's columns are in UTC, NOW() in your own statements is not", zone), "compare with UTC_TIMESTAMP(6)")
	}
	if n, known := l.number("max_allowed_packet"); known && n < packetNeeded {
		l.warn("packet-too-small", fmt.Sprintf("max_allowed_packet is %d bytes: an event with a payload of a megabyte can't be written, or parked", n),
			fmt.Sprintf("SET GLOBAL max_allowed_packet = %d, which new connections have", 4*packetNeeded))
	}
	return nil
}

func (l *look) zone() string {
	if z := l.vars["time_zone"]; z != "SYSTEM" {
		return z
	}
	return l.vars["system_time_zone"]
}

func (l *look) binlog() {
	if l.on("log_bin") && strings.EqualFold(l.vars["binlog_format"], "statement") {
		l.fail("binlog-statement", "binlog_format is STATEMENT: at READ COMMITTED every claim and mark fails with error 1665", "SET GLOBAL binlog_format = 'ROW'")
	}
}

// durable warns when a committed transaction can be lost.
func (l *look) durable() {
	const hint = "SET GLOBAL %s = 1, unless such a loss is acceptable: an order can be lost with its event, or an event be applied whose order is lost"
	lost := "the transactions of up to a second, or of innodb_flush_log_at_timeout = %s s"
	switch l.vars["innodb_flush_log_at_trx_commit"] {
	case "0":
		l.warn("commit-not-durable", "innodb_flush_log_at_trx_commit is 0: a crash of the server or a power cut takes committed transactions back: "+fmt.Sprintf(lost, l.vars["innodb_flush_log_at_timeout"]),
			fmt.Sprintf(hint, "innodb_flush_log_at_trx_commit"))
	case "2":
		l.warn("commit-not-durable", "innodb_flush_log_at_trx_commit is 2: a power cut or a crash of the machine takes committed transactions back: "+fmt.Sprintf(lost, l.vars["innodb_flush_log_at_timeout"]),
			fmt.Sprintf(hint, "innodb_flush_log_at_trx_commit"))
	}
	n, known := l.number("sync_binlog")
	switch {
	case !l.on("log_bin") || !known || n == 1:
	case n == 0:
		l.warn("commit-not-durable", "sync_binlog is 0: the binary log is on disk when the operating system sees fit, often 30 s later, and after a power cut the server rolls back, or its replicas never see, what is not in it",
			fmt.Sprintf(hint, "sync_binlog"))
	default:
		l.warn("commit-not-durable", fmt.Sprintf("sync_binlog is %d: after a power cut the server rolls back, or its replicas never see, the transactions of up to %d groups of commits", n, n),
			fmt.Sprintf(hint, "sync_binlog"))
	}
}

func (l *look) readOnly() {
	for _, name := range []string{"super_read_only", "read_only", "innodb_read_only", "transaction_read_only", "tx_read_only"} {
		if v := l.vars[name]; v != "" && v != "0" && !strings.EqualFold(v, "off") {
			l.fail("server-read-only", fmt.Sprintf("%s is %s: writers, relays and consumers can write nothing here", name, strings.ToLower(v)),
				"name the primary in the DSN; reads on a replica are late, and outboxgen's must not be")
			return
		}
	}
}

func (l *look) connections(context.Context) error {
	most, known := l.number("max_connections")
	used, err := strconv.ParseInt(l.status["threads_connected"], 10, 64)
	if !known || err != nil {
		return nil // a server that does not count them
	}
	if used*10 >= most*8 {
		l.warn("connections-scarce", fmt.Sprintf("%d of %d connections are in use: a relay that can't get one publishes nothing", used, most),
			"raise max_connections, or lower MaxOpenConns of the pools: their sum over all processes must fit")
	}
	return nil
}
