package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

// Nothing is found on a server as it comes, with the tables just made, or with many rows.
func TestNothingIsWrong(t *testing.T) {
	for kind := range files {
		each(t, kind, func(p *patient) {
			p.well()
			p.exec("ANALYZE TABLE outbox_event")
			p.well()
		})
	}
}

func TestNothingIsWrongWithManyRows(t *testing.T) {
	for _, kind := range []string{"lanes", "rows"} {
		each(t, kind, func(p *patient) {
			p.fill(90_000, 2, "UTC_TIMESTAMP(6)")
			p.fill(10_000, 0, "'1970-01-01'")
			p.aliveRelays(1)
			if r := p.check(); strings.Contains(described(r), "warning: the statistics") { // InnoDB is at it
				p.Errorf("%s", described(r))
			}
			p.exec("ANALYZE TABLE outbox_event")
			p.well()
		})
	}
}

// fill adds events of ten thousand aggregates in a state, due for an hour.
func (p *patient) fill(n, status int, published string) {
	p.Helper()
	for done := 0; done < n; done += 10_000 {
		p.exec(fmt.Sprintf(`INSERT INTO outbox_event
			(event_id, aggregate_type, aggregate_id, event_type, event_version, schema_version, payload, headers, created_at, available_at, status, published_at)
			WITH RECURSIVE digits (d) AS (SELECT 0 UNION ALL SELECT d + 1 FROM digits WHERE d < 9),
			numbers (n) AS (SELECT a.d + 10*b.d + 100*c.d + 1000*e.d FROM digits a, digits b, digits c, digits e)
			SELECT UUID(), 'order', n, 'order.accepted', 1, 2, '{"a":1}', '{}', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL 1 HOUR + INTERVAL n MICROSECOND, %d, %s
			FROM numbers WHERE n < %d`, status, published, min(n-done, 10_000)))
	}
}

func (p *patient) aliveRelays(n int) {
	p.Helper()
	for i := range n {
		p.exec(fmt.Sprintf("INSERT INTO outbox_relay (owner, host, pid, started_at, alive_until) VALUES ('relay-%d', 'h', 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 HOUR)", i))
	}
}

// global sets a variable, until the test ends or the function that it returns is called.
func (p *patient) global(name, value string) (back func()) {
	p.Helper()
	var before string
	if err := p.db.QueryRow("SELECT @@GLOBAL." + name).Scan(&before); err != nil {
		p.Fatal(err)
	}
	if _, err := strconv.Atoi(before); err != nil {
		before = "'" + before + "'"
	}
	p.exec(fmt.Sprintf("SET GLOBAL %s = %s", name, value))
	back = sync.OnceFunc(func() { p.exec(fmt.Sprintf("SET GLOBAL %s = %s", name, before)) })
	p.Cleanup(back)
	return back
}

// Each setting that matters is found, and found well again when it is set back.
func TestSettings(t *testing.T) {
	cases := []struct{ name, value, want, says string }{
		{"innodb_flush_log_at_trx_commit", "2", "warning commit-not-durable", "of up to a second"},
		{"innodb_flush_log_at_trx_commit", "0", "warning commit-not-durable", "a crash of the server"},
		{"sync_binlog", "0", "warning commit-not-durable", "30 s"},
		{"sync_binlog", "100", "warning commit-not-durable", "100 groups"},
		{"autocommit", "OFF", "error autocommit-off", ""},
		{"read_only", "ON", "error server-read-only", "read_only is"},
		{"binlog_format", "'STATEMENT'", "error binlog-statement", "1665"},
		{"sql_mode", "'NO_ZERO_DATE'", "warning sql-mode-lax", "STRICT"},
		{"time_zone", "'+05:00'", "note server-zone", "+05:00"},
		{"max_allowed_packet", "1048576", "warning packet-too-small", "1048576"},
		{"isolation", "'SERIALIZABLE'", "note isolation-default", "SERIALIZABLE"},
		{"isolation", "'READ-UNCOMMITTED'", "note isolation-default", "READ-UNCOMMITTED"},
	}
	each(t, "lanes", func(p *patient) {
		for _, c := range cases {
			name := c.name
			if name == "isolation" {
				name = map[dbserver.Flavor]string{dbserver.MySQL: "transaction_isolation", dbserver.MariaDB: "tx_isolation"}[p.Flavor]
			}
			back := p.global(name, c.value)
			p.finds(c.want, c.says)
			back()
		}
		p.well()
	})
}

func TestFewConnectionsAreLeft(t *testing.T) {
	each(t, "lanes", func(p *patient) {
		p.global("max_connections", "10")
		for range 8 {
			conn, err := p.db.Conn(p.Context())
			if err != nil {
				p.Fatal(err)
			}
			defer conn.Close()
			if err := conn.PingContext(p.Context()); err != nil {
				p.Fatal(err)
			}
		}
		p.cfg.Databases.Outbox = p.Open(p.T)
		p.cfg.Databases.Outbox.SetMaxOpenConns(2)
		p.finds("warning connections-scarce", "of 10 connections")
	})
}

func TestLongTransaction(t *testing.T) {
	each(t, "lanes", func(p *patient) {
		tx, err := p.db.BeginTx(context.Background(), nil)
		if err != nil {
			p.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.Exec("INSERT INTO outbox_task (task, holder, holder_until) VALUES ('a', 'b', UTC_TIMESTAMP(6))"); err != nil {
			p.Fatal(err)
		}
		p.well() // it is young
		p.cfg.longTransaction = time.Nanosecond
		p.finds("warning long-transaction", "a transaction is open")
	})
}

func TestLongHistory(t *testing.T) {
	each(t, "lanes", func(p *patient) {
		p.cfg.longHistory = -1
		p.finds("note history-long", "old versions of rows")
	})
}

func TestClock(t *testing.T) {
	each(t, "lanes", func(p *patient) {
		for _, c := range []struct {
			by   time.Duration
			says string
		}{{10 * time.Second, "behind"}, {-10 * time.Second, "ahead"}} {
			p.cfg.now = func() time.Time { return time.Now().Add(c.by) }
			p.finds("warning clock-differs", c.says)
		}
		p.cfg.now = func() time.Time { return time.Now().Add(time.Second) }
		p.well()
	})
}

func TestClocksOfTwoDatabases(t *testing.T) {
	var r Report
	outbox, other := &look{report: &r, offset: time.Second, within: time.Millisecond}, &look{report: &r, where: "the database of a: ", within: time.Millisecond}
	outbox.compareClocks(other)
	if len(r.Findings) != 0 {
		t.Errorf("%v", r.Findings)
	}
	other.offset = 4 * time.Second
	outbox.compareClocks(other)
	if got := described(r); !strings.Contains(got, "the database of a: its clock is 3s ahead of the outbox's database [clock-differs]") {
		t.Error(got)
	}
}
