package waiting

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// What a row waits for.
const (
	pending = "pending" // its relay
	dead    = "dead"    // somebody who has it published after all
	parked  = "parked"  // somebody who redrives it
)

// look is one look into a database.
type look struct {
	db            *sql.DB
	prefix        string
	base, current *spec.Model
	most          int // rows of each kind
	found         []*unreadable
}

// all reads the rows one by one, without a lock and in no one moment: rows that relays
// publish meanwhile are none that wait.
func (l *look) all(ctx context.Context) error {
	tx, err := l.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it has written nothing
	for _, s := range []struct {
		status int
		state  string
	}{{0, pending}, {3, dead}} {
		// By the index of the claim, which begins with the status: MariaDB would read the
		// whole table where many of its rows wait.
		query := fmt.Sprintf("SELECT event_id, event_type, schema_version FROM %[1]soutbox_event FORCE INDEX (ix_%[1]soutbox_event_claim) WHERE status = ? LIMIT ?", l.prefix)
		if err := l.each(ctx, tx, s.state, query, []any{s.status}, l.event(s.state)); err != nil {
			return err
		}
	}
	query := fmt.Sprintf("SELECT event_id, event_type, JSON_UNQUOTE(JSON_EXTRACT(attributes, '$.schemaversion')), consumer_name, kind FROM %sparked_event LIMIT ?", l.prefix)
	return l.each(ctx, tx, parked, query, nil, l.parked)
}

// each hands the rows of a query to a function that scans one.
func (l *look) each(ctx context.Context, tx *sql.Tx, state, query string, args []any, row func(*sql.Rows) error) error {
	rows, err := tx.QueryContext(ctx, query, append(args, l.most+1)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for n := 0; rows.Next(); n++ {
		if n == l.most {
			return &cappedError{state, l.most}
		}
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// event looks at a row of outbox_event.
func (l *look) event(state string) func(*sql.Rows) error {
	return func(rows *sql.Rows) error {
		var id, event string
		var version int
		if err := rows.Scan(&id, &event, &version); err != nil {
			return err
		}
		if !reads(l.current, event, version) {
			l.unread(RuleRows, event, version, state, id)
		}
		return nil
	}
}

// parked looks at a row of parked_event. What was parked since the consumer could not
// read it waits for nothing that the base has, unless that reads it.
func (l *look) parked(rows *sql.Rows) error {
	var id, event, name, kind string
	var text sql.NullString
	if err := rows.Scan(&id, &event, &text, &name, &kind); err != nil {
		return err
	}
	var version int
	_, _ = fmt.Sscan(text.String, &version) // 0 where a message isn't an event
	unknown := kind == "message" || (kind == "type" || kind == "version") && !(l.base != nil && applies(l.base, name, event, version))
	consumer := consumerOf(l.current, name)
	switch {
	case consumer == nil:
		l.report(RuleParked, fmt.Sprintf("the consumer %q", name), diag.Pos{File: l.current.File}, parked, id)
	case unknown:
	case !reads(l.current, event, version):
		l.unread(RuleParked, event, version, parked, id)
	case !applies(l.current, name, event, version):
		l.report(RuleParked, fmt.Sprintf("%q in handles of %q", event, name), consumer.Name.Pos, parked, id)
	}
	return nil
}

func reads(m *spec.Model, event string, version int) bool {
	ev := find(m.Events, func(e *spec.Event) bool { return e.Name.Text == event })
	return ev != nil && slices.ContainsFunc(ev.Versions, func(v *spec.Version) bool { return v.Number == version })
}

// applies reports a consumer that handles an event and is given that version.
func applies(m *spec.Model, consumer, event string, version int) bool {
	c := consumerOf(m, consumer)
	return c != nil && reads(m, event, version) &&
		slices.ContainsFunc(c.Handles, func(e *spec.Event) bool { return e.Name.Text == event })
}

func consumerOf(m *spec.Model, name string) *spec.Consumer {
	return find(m.Consumers, func(c *spec.Consumer) bool { return c.Name.Text == name })
}

func (l *look) unread(rule, event string, version int, state, id string) {
	at := diag.Pos{File: l.current.File}
	if ev := find(l.current.Events, func(e *spec.Event) bool { return e.Name.Text == event }); ev != nil {
		at = ev.Name.Pos
	}
	l.report(rule, fmt.Sprintf("version %d of %q", version, event), at, state, id)
}

func find[T any](list []*T, is func(*T) bool) *T {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i]
	}
	return nil
}
