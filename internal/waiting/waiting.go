// Package waiting looks into a database for rows that an events.yaml could not read:
// events that are still to be published or dead, and those that consumers have parked.
package waiting

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
	"github.com/outboxgen/outboxgen/internal/spec"
)

// The rules.
const (
	RuleRows   = "rows-waiting"
	RuleParked = "events-parked"
)

// mostRows is how many rows are looked at of each kind: pending, dead, parked.
const mostRows = 1_000_000

// lookTimeout bounds all of a look.
const lookTimeout = 5 * time.Minute

// Check returns a finding for each event, version and consumer that rows wait for and
// current no longer has. base is what was published, nil when that isn't known: then
// tables have current's names, and what a consumer parked since it could not read it
// is nobody's fault. With more rows than are looked at, the findings are those of the
// rows looked at, and there is an error.
func Check(ctx context.Context, db *sql.DB, base, current *spec.Model) (diag.List, error) {
	return check(ctx, db, base, current, mostRows)
}

// CheckSome is Check without what was published, and looks at no more than so many rows of each
// kind: pending, dead, parked. Whether there were more is no error, but reported.
func CheckSome(ctx context.Context, db *sql.DB, current *spec.Model, most int) (list diag.List, more bool, err error) {
	list, err = check(ctx, db, nil, current, most)
	if errors.As(err, new(*cappedError)) {
		return list, true, nil
	}
	return list, false, err
}

func check(ctx context.Context, db *sql.DB, base, current *spec.Model, most int) (diag.List, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	prefix := current.Outbox.TablePrefix.Text
	if base != nil {
		prefix = base.Outbox.TablePrefix.Text // the tables that rows wait in before the deploy
	}
	l := &look{db: db, prefix: prefix, base: base, current: current, most: most}
	if err := l.all(ctx); err != nil {
		return l.findings(), explain(err)
	}
	return l.findings(), nil
}

// explain says what went wrong.
func explain(err error) error {
	var server *mysql.MySQLError
	if errors.As(err, &server) {
		switch server.Number {
		case 1146: // ER_NO_SUCH_TABLE
			return hint(fmt.Errorf("a table of the outbox is not there yet: %s", server.Message),
				"create the tables of queries/schema.sql, or name the database that has them")
		case 1176, 1054: // ER_KEY_DOES_NOT_EXITS, ER_BAD_FIELD_ERROR
			return hint(fmt.Errorf("a table of the outbox is of another version: %s", server.Message),
				"bring the tables to queries/schema.sql first")
		}
	}
	var capped *cappedError
	if errors.As(err, &capped) {
		return hint(err, "let the relays publish, redrive what is parked or delete what is dead, and run again")
	}
	return fmt.Errorf("look into the database: %w", err)
}

// Error is an error with a way out.
type Error struct {
	error
	Hint string
}

func (e *Error) Unwrap() error { return e.error }

func hint(err error, text string) error { return &Error{err, text} }

// cappedError is for more rows than are looked at.
type cappedError struct {
	what string
	most int
}

func (e *cappedError) Error() string {
	return fmt.Sprintf("more than %d events are %s: only the first %d were looked at", e.most, e.what, e.most)
}

// unreadable are the rows of one kind of finding.
type unreadable struct {
	rule   string
	pos    diag.Pos
	what   string         // `version 1 of "order.accepted"`
	counts map[string]int // by state: pending, dead, parked
	ids    []string       // the smallest few, which are of the oldest
}

// mostIDs is how many rows a finding names.
const mostIDs = 3

func (l *look) findings() diag.List {
	var list diag.List
	for _, u := range l.found {
		var parts []string
		n := 0
		for _, state := range []string{pending, dead, parked} {
			if count := u.counts[state]; count > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", count, state))
				n += count
			}
		}
		ids := strings.Join(u.ids, ", ")
		if n > len(u.ids) {
			ids += fmt.Sprintf(" and %d more", n-len(u.ids))
		}
		list.Add(diag.Diagnostic{
			Pos: u.pos, Rule: u.rule,
			Message: fmt.Sprintf("%s is needed by events that wait: %s (%s)", u.what, strings.Join(parts, ", "), ids),
			Hint:    "bring it back until they are published, redriven or deleted",
		})
	}
	return list
}

// report counts a row.
func (l *look) report(rule, what string, pos diag.Pos, state, id string) {
	i := slices.IndexFunc(l.found, func(u *unreadable) bool { return u.rule == rule && u.what == what })
	if i < 0 {
		i = len(l.found)
		l.found = append(l.found, &unreadable{rule: rule, what: what, pos: pos, counts: map[string]int{}})
	}
	u := l.found[i]
	u.counts[state]++
	u.ids = append(u.ids, id)
	slices.Sort(u.ids)
	u.ids = u.ids[:min(len(u.ids), mostIDs)]
}
