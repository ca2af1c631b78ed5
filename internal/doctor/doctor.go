// Package doctor looks at the databases of a service and says what is wrong with them, and what
// to do: the server and its settings, the tables, the plans of the claims, the rows, the
// privileges of a user. It changes nothing.
package doctor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/internal/privileges"
	"github.com/outboxgen/outboxgen/internal/schemadiff"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// lookTimeout bounds all of a look.
const lookTimeout = 5 * time.Minute

// Config says what to look at.
type Config struct {
	Model     *spec.Model
	Databases ops.Databases

	// ServiceDSNs are those that the service itself connects with, each checked without a
	// connection. Optional.
	ServiceDSNs []string

	// Role is what the user of the outbox's database is for: its privileges are looked at.
	// Optional.
	Role privileges.Role

	// For tests.
	now             func() time.Time // this machine's clock
	longTransaction time.Duration    // how long a transaction may be open
	longHistory     int64            // so many old versions of rows that reads get slow
}

// Report is what was found.
type Report struct {
	Findings diag.List // errors first, then warnings, then notes
	Looked   []string  // what was looked at: "the server", …
	Missed   []string  // what was not, and why
	Server   string    // kind and version of the outbox's
}

// Failing reports an error or a warning.
func (r Report) Failing() bool {
	return slices.ContainsFunc(r.Findings, func(d diag.Diagnostic) bool { return d.Severity != diag.SeverityNote })
}

// Check looks. The error is for an outbox's database that can't be asked at all; what
// else fails is a finding.
func Check(ctx context.Context, cfg Config) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	cfg = cfg.withDefaults()
	var r Report
	l := &look{cfg: cfg, report: &r, db: cfg.Databases.Outbox, outbox: true, consumers: map[string]bool{}}
	for _, c := range cfg.Model.Consumers {
		l.consumers[c.Name.Text] = cfg.Databases.Consumers[c.Name.Text] == nil
	}
	if err := l.all(ctx); err != nil {
		return Report{}, err
	}
	r.Server = l.name()
	for _, c := range cfg.Model.Consumers {
		if db := cfg.Databases.Consumers[c.Name.Text]; db != nil {
			other := &look{cfg: cfg, report: &r, db: db, where: "the database of " + c.Name.Text + ": ", consumers: map[string]bool{c.Name.Text: true}}
			if err := other.all(ctx); err != nil {
				return Report{}, fmt.Errorf("the consumer %s: %w", c.Name.Text, err)
			}
			l.compareClocks(other)
		}
	}
	l.serviceDSNs()
	l.kept()
	r.sort()
	return r, nil
}

func (cfg Config) withDefaults() Config {
	if cfg.now == nil {
		cfg.now = time.Now
	}
	if cfg.longTransaction == 0 {
		cfg.longTransaction = time.Minute
	}
	if cfg.longHistory == 0 {
		cfg.longHistory = 1_000_000
	}
	return cfg
}

func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b diag.Diagnostic) int {
		if a.Severity != b.Severity {
			return int(a.Severity) - int(b.Severity)
		}
		return strings.Compare(a.Rule, b.Rule)
	})
	r.Findings = slices.CompactFunc(r.Findings, func(a, b diag.Diagnostic) bool { return a.Rule == b.Rule && a.Message == b.Message })
}

// look is one look into one database.
type look struct {
	cfg       Config
	report    *Report
	db        *sql.DB
	where     string          // in front of messages
	outbox    bool            // it has the outbox's tables
	consumers map[string]bool // those whose tables it has

	vars, status map[string]string
	server       schemadiff.Server
	offset       time.Duration // the database's clock is so much ahead of this machine's
	within       time.Duration // how exact offset is
}

// step is one thing to look at.
type step struct {
	what string
	run  func(context.Context) error
}

func (l *look) all(ctx context.Context) error {
	if err := l.ask(ctx); err != nil {
		return err
	}
	steps := []step{
		{"the server's version", l.version},
		{"its settings", l.settings},
		{"its connections", l.connections},
		{"its clock", l.clock},
		{"locks and isolation", l.locks},
		{"the tables", l.tables},
		{"long transactions", l.transactions},
	}
	if l.outbox {
		steps = append(steps,
			step{"the plans of claims", l.plans}, step{"published events", l.published}, step{"payloads", l.payloads},
			step{"relays", l.relays}, step{"dead events", l.dead}, step{"rows that wait", l.waiting})
	}
	steps = append(steps, step{"dedup rows", l.dedup}, step{"parked events", l.parked}, step{"the audit", l.audit})
	if l.roleIsHere() {
		steps = append(steps, step{"the privileges of the role " + string(l.cfg.Role), l.privileges})
	}
	for _, s := range steps {
		missed := len(l.report.Missed)
		err := s.run(ctx)
		var answer *mysql.MySQLError
		switch {
		case err == nil && len(l.report.Missed) > missed: // it said so itself
		case err == nil:
			l.report.Looked = append(l.report.Looked, l.where+s.what)
		case errors.As(err, &answer) && slices.Contains(noRight, answer.Number):
			l.miss(s.what, "this user has no right to")
		case errors.As(err, &answer) && slices.Contains(noTable, answer.Number):
			l.miss(s.what, "its tables are missing or differ")
		default:
			l.find("could-not-run", diag.SeverityError, fmt.Sprintf("look at %s: %v", s.what, err), "")
		}
	}
	return nil
}

// roleIsHere reports a role whose tables are in this database.
func (l *look) roleIsHere() bool {
	if l.cfg.Role != privileges.Consumer {
		return l.cfg.Role != "" && l.outbox
	}
	for _, here := range l.consumers {
		if here {
			return true
		}
	}
	return false
}

var (
	noRight = []uint16{1044, 1142, 1143, 1227, 1345}
	noTable = []uint16{1146, 1176, 1054, 1356}
)

func (l *look) miss(what, why string) {
	l.report.Missed = append(l.report.Missed, fmt.Sprintf("%s%s (%s)", l.where, what, why))
}

func (l *look) find(rule string, severity diag.Severity, message, hint string) {
	l.report.Findings.Add(diag.Diagnostic{Severity: severity, Rule: rule, Message: l.where + message, Hint: hint})
}

func (l *look) fail(rule, message, hint string) { l.find(rule, diag.SeverityError, message, hint) }
func (l *look) warn(rule, message, hint string) { l.find(rule, diag.SeverityWarning, message, hint) }
func (l *look) note(rule, message, hint string) { l.find(rule, diag.SeverityNote, message, hint) }

// ask reads what most of the steps want to know.
func (l *look) ask(ctx context.Context) (err error) {
	if l.vars, err = l.pairs(ctx, "SHOW GLOBAL VARIABLES"); err != nil {
		return fmt.Errorf("ask the server for its settings: %w", err)
	}
	l.status, err = l.pairs(ctx, "SHOW GLOBAL STATUS")
	if err != nil {
		return fmt.Errorf("ask the server for its status: %w", err)
	}
	return nil
}

// pairs reads rows of a name, in lower case, and a value.
func (l *look) pairs(ctx context.Context, query string) (map[string]string, error) {
	rows, err := l.db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var name string
		var value sql.NullString
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		out[strings.ToLower(name)] = value.String
	}
	return out, rows.Err()
}

// query puts our names in: {outbox_event} is a table, {ix_:outbox_event_claim} a key.
func (l *look) query(text string) string {
	prefix := l.cfg.Model.Outbox.TablePrefix.Text
	text = strings.ReplaceAll(text, "{ix_:", "ix_"+prefix)
	return strings.NewReplacer("{", prefix, "}", "").Replace(text)
}

func (l *look) table(name string) string { return l.cfg.Model.Outbox.TablePrefix.Text + name }

func (l *look) lanes() bool { return l.cfg.Model.Outbox.Ordering == spec.OrderingAggregate }

// count asks for one number.
func (l *look) count(ctx context.Context, text string, args ...any) (n int64, err error) {
	err = l.db.QueryRowContext(ctx, l.query(text), args...).Scan(&n)
	return n, err
}
