package doctor

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// Servers that can't be had, as they answer.
func TestVersions(t *testing.T) {
	for name, c := range map[string]struct {
		vars map[string]string
		want string // findings
	}{
		"MySQL 8.0":      {map[string]string{"version": "8.0.44", "version_comment": "MySQL Community Server - GPL"}, ""},
		"MySQL 8.4":      {map[string]string{"version": "8.4.7"}, ""},
		"MySQL 9":        {map[string]string{"version": "9.7.4-2", "version_comment": "(Debian)"}, ""},
		"MariaDB 10.6":   {map[string]string{"version": "10.6.1-MariaDB-log"}, ""},
		"MariaDB 12":     {map[string]string{"version": "12.0.2-MariaDB-ubu2404"}, ""},
		"MySQL 5.7":      {map[string]string{"version": "5.7.44-log"}, "error server-unsupported"},
		"MySQL 8.0.18":   {map[string]string{"version": "8.0.18"}, "error server-unsupported"},
		"MariaDB 10.5":   {map[string]string{"version": "10.5.29-MariaDB"}, "error server-unsupported"},
		"no version":     {map[string]string{"version": "next"}, "error server-unsupported"},
		"MySQL 8.2":      {map[string]string{"version": "8.2.0"}, "note server-untested"},
		"TiDB":           {map[string]string{"version": "8.0.11-TiDB-v8.5.1", "version_comment": "TiDB Server (Apache License 2.0)"}, "note server-untested"},
		"Vitess":         {map[string]string{"version": "8.0.30-Vitess"}, "note server-untested"},
		"Aurora":         {map[string]string{"version": "8.0.39", "aurora_version": "3.08.0", "version_comment": "Source distribution"}, "note server-untested"},
		"ProxySQL":       {map[string]string{"version": "8.0.30", "version_comment": "(ProxySQL)"}, "note server-untested"},
		"Percona Server": {map[string]string{"version": "8.0.40-31", "version_comment": "Percona Server (GPL), Release 31"}, "note server-untested"},
		"Galera":         {map[string]string{"version": "10.11.8-MariaDB", "wsrep_on": "ON"}, "note galera"},
	} {
		var r Report
		l := &look{report: &r, vars: c.vars}
		if err := l.version(t.Context()); err != nil {
			t.Error(err)
		}
		if got := strings.TrimSpace(described(r)); c.want == "" && got != "" || c.want != "" && !strings.Contains(got, "["+strings.Fields(c.want)[1]+"]") || len(r.Findings) > 1 {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		for _, d := range r.Findings {
			if d.Severity.String()+" "+d.Rule != c.want {
				t.Errorf("%s: %s %s, want %s", name, d.Severity, d.Rule, c.want)
			}
		}
	}
}

// Settings that can't be set while a server runs.
func TestSettingsOfOtherServers(t *testing.T) {
	sound := map[string]string{"sql_mode": "STRICT_TRANS_TABLES", "time_zone": "SYSTEM", "system_time_zone": "UTC", "log_bin": "ON", "sync_binlog": "1", "innodb_flush_log_at_trx_commit": "1"}
	for want, vars := range map[string]map[string]string{
		"":                             {},
		"note lock-timeout-rolls-back": {"innodb_rollback_on_timeout": "ON"},
		"error server-read-only":       {"innodb_read_only": "ON", "read_only": "OFF"},
		"note server-zone":             {"system_time_zone": "CEST"},
	} {
		all := map[string]string{}
		for _, m := range []map[string]string{sound, vars} {
			for k, v := range m {
				all[k] = v
			}
		}
		var r Report
		l := &look{report: &r, vars: all}
		if err := l.settings(t.Context()); err != nil {
			t.Error(err)
		}
		if got := strings.Join(rulesOf(r), ", "); got != want {
			t.Errorf("%v: %s, want %s", vars, got, want)
		}
	}
	for _, vars := range []map[string]string{ // nothing to say
		{"log_bin": "OFF", "sync_binlog": "0", "sql_mode": "TRADITIONAL"},
		{"log_bin": "OFF", "binlog_format": "STATEMENT", "sql_mode": "STRICT_ALL_TABLES"},
		{"log_bin": "ON", "binlog_format": "MIXED", "sync_binlog": "1", "sql_mode": "STRICT_ALL_TABLES", "innodb_flush_log_at_trx_commit": "3"},
	} {
		var r Report
		vars["time_zone"] = "+00:00"
		if err := (&look{report: &r, vars: vars}).settings(t.Context()); err != nil || len(r.Findings) > 0 {
			t.Errorf("%v: %s, %v", vars, described(r), err)
		}
	}
}

func rulesOf(r Report) []string {
	var out []string
	for _, d := range r.Findings {
		out = append(out, d.Severity.String()+" "+d.Rule)
	}
	return out
}

// scripted is a server that answers by the beginning of a statement: with one row, with none, or
// with an error of that number.
type scripted map[string]any

func (s scripted) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s scripted) Driver() driver.Driver                        { return nil }
func (s scripted) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (s scripted) Close() error                                 { return nil }
func (s scripted) Begin() (driver.Tx, error)                    { return s, nil }
func (s scripted) Commit() error                                { return nil }
func (s scripted) Rollback() error                              { return nil }

func (s scripted) answer(query string) (row []driver.Value, err error) {
	for end, a := range s {
		if strings.HasSuffix(query, end) {
			switch a := a.(type) {
			case int:
				return nil, &mysql.MySQLError{Number: uint16(a), Message: "no"}
			case []driver.Value:
				return a, nil
			}
		}
	}
	return nil, nil
}

func (s scripted) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	_, err := s.answer(query)
	return driver.RowsAffected(1), err
}

func (s scripted) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	row, err := s.answer(query)
	if err != nil {
		return nil, err
	}
	return &oneRow{row}, nil
}

type oneRow struct{ row []driver.Value }

func (r *oneRow) Columns() []string { return make([]string, len(r.row)) }
func (r *oneRow) Close() error      { return nil }
func (r *oneRow) Next(dest []driver.Value) error {
	if r.row == nil {
		return io.EOF
	}
	copy(dest, r.row)
	r.row = nil
	return nil
}

// What is asked for with locks and isolation is found out by trying.
func TestLocks(t *testing.T) {
	const isolation, now, skip, insert = "'transaction_isolation')", "NOWAIT", "SKIP LOCKED", "'1970-01-01')"
	committed := []driver.Value{"transaction_isolation", "READ-COMMITTED"}
	for name, c := range map[string]struct {
		server scripted
		want   string
		missed string
	}{
		"sound":                      {server: scripted{isolation: committed, now: noWait}},
		"sound, as MariaDB":          {server: scripted{isolation: committed, now: lockTimeout}},
		"the level stays":            {scripted{isolation: []driver.Value{"x", "REPEATABLE-READ"}, now: noWait}, "error isolation-not-settable", ""},
		"SKIP LOCKED waits":          {scripted{isolation: committed, now: noWait, skip: lockTimeout}, "error skip-locked-ignored", ""},
		"locks are ignored":          {server: scripted{isolation: committed}, want: "error skip-locked-ignored"},
		"a replica":                  {server: scripted{isolation: committed, insert: 1290}, missed: "SKIP LOCKED (the server is read-only)"},
		"no right to insert a probe": {server: scripted{isolation: committed, insert: 1142}, missed: "SKIP LOCKED (this user has no right to try it; a relay tries it before it begins)"},
	} {
		var r Report
		db := sql.OpenDB(c.server)
		l := &look{cfg: Config{Model: model(t, "lanes")}, report: &r, db: db, outbox: true}
		if err := l.locks(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := strings.Join(rulesOf(r), ", "); got != c.want || strings.Join(r.Missed, "") != c.missed {
			t.Errorf("%s: %q, not looked at: %q", name, got, r.Missed)
		}
		_ = db.Close()
	}
}
