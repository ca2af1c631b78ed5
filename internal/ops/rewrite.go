package ops

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/rebuild"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// rewriter writes events anew of their business rows.
type rewriter struct {
	*Service
	since      int64 // the newest row of the audit before anybody looked
	write      bool
	schemas    map[*spec.Version]*rebuild.Schema
	statements map[string]string // by the event's name
}

// rewrite writes the event of a finding, in one transaction with the audit. The note says why
// it did not.
func (w *rewriter) rewrite(ctx context.Context, f Finding) (note string, err error) {
	e := f.event
	if e == nil {
		return "nothing is known of its business row", nil
	}
	if e.Source.Rebuild.Text == "" {
		return fmt.Sprintf("events.yaml has no source.rebuild for %s: write it by Write%s, with this id, in a transaction of your own", e.Name.Text, e.GoName), nil
	}
	statement, known := w.statements[e.Name.Text]
	if !known {
		var problem error
		if text, d := rebuild.Statement(w.model, e.Event); d != nil {
			problem = &OptionError{d.Message, d.Hint}
		} else {
			statement, w.statements[e.Name.Text] = text, text
		}
		if problem != nil {
			return "", problem
		}
	}
	err = change(ctx, w.outbox, func(tx *outbox.Tx) error { return w.rewriteIn(ctx, tx, f, statement) })
	if note, is := refusal(err); is {
		return note, nil
	}
	if err != nil {
		return "", fmt.Errorf("write %s of event %s: %w", e.Name.Text, f.EventID, err)
	}
	return "", nil
}

func (w *rewriter) rewriteIn(ctx context.Context, tx *outbox.Tx, f Finding, statement string) error {
	lock := ""
	if w.write {
		lock = "LOCK IN SHARE MODE"
	}
	is, err := f.event.source.still(ctx, tx, f.key, f.EventID, lock)
	if err != nil {
		return fmt.Errorf("lock its business row: %w", err)
	}
	if !is {
		return refuse("its business row is gone, or has another event by now")
	}
	made, err := w.make(ctx, tx, f, statement)
	if err != nil || !w.write {
		return err
	}
	err = outbox.Write(ctx, tx, made, w.insertEvent)
	if err != nil {
		return w.notWritten(err)
	}
	// Where published events are deleted, one that somebody else wrote may be gone already.
	var n int
	query := w.query("SELECT COUNT(*) FROM {outbox_audit} FORCE INDEX ({ix_:outbox_audit_event}) WHERE event_id = ? AND operation = ? AND id > ?")
	if err := tx.QueryRowContext(ctx, query, f.EventID, opRepublishEvent, w.since).Scan(&n); err != nil {
		return fmt.Errorf("look into the audit: %w", err)
	}
	if n > 0 {
		return refuse("already written: somebody else was first")
	}
	return w.Service.write(ctx, tx, record{operation: opRepublishEvent, eventID: f.EventID, detail: fmt.Sprintf("%s, schema version %d, made anew of its row in %s", made.EventType, made.SchemaVersion, f.event.source.Table.Text)})
}

// notWritten is an error of outbox.Write, as a note where it is about this event alone.
func (w *rewriter) notWritten(err error) error {
	switch info := w.outbox.Classify(err); {
	case info.Fault == outbox.FaultDuplicate && info.Constraint == "PRIMARY":
		return refuse("already written: somebody else was first")
	case info.Code == 0 && info.Fault == outbox.FaultOther:
		return refuse("it can't be written: %v", err) // by its checks, which show no value
	}
	return quiet(w.outbox, err)
}

// insertEvent is the statement InsertEvent of generated code.
func (w *rewriter) insertEvent(ctx context.Context, tx outbox.Transaction, row outbox.Row) error {
	_, err := tx.ExecContext(ctx, w.query(`INSERT INTO {outbox_event} (event_id, aggregate_type, aggregate_id, event_type, event_version, schema_version, payload, headers, created_at, available_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, `+now+", "+now+")"),
		row.EventID, row.AggregateType, row.AggregateID, row.EventType, row.EventVersion, row.SchemaVersion, string(row.Payload), string(row.Headers))
	return err
}

// made is a payload in JSON that was checked.
type made json.RawMessage

func (m made) MarshalJSON() ([]byte, error) { return m, nil }

func (m made) Validate() error { return nil }

// make runs the user's statement, and holds what it returns against the event's schema and its
// business row.
func (w *rewriter) make(ctx context.Context, tx *outbox.Tx, f Finding, statement string) (r outbox.Record, err error) {
	e := f.event
	id, err := uuid.Parse(f.EventID)
	if err != nil {
		return r, refuse("no event id is known")
	}
	row, err := w.runStatement(ctx, tx, e.Source.Rebuild.Text, statement, f.EventID)
	if err != nil {
		return r, err
	}
	v := e.Newest()
	if number, given := row["schema_version"]; given {
		i := slices.IndexFunc(e.Versions, func(v *spec.Version) bool { return strconv.Itoa(v.Number) == number })
		if i < 0 {
			return r, refuse("the schema_version that %s returns is none of %s", e.Source.Rebuild.Text, e.Name.Text)
		}
		v = e.Versions[i]
	}
	if w.schemas[v] == nil {
		if w.schemas[v], err = rebuild.SchemaOf(w.model, e.Event, v); err != nil {
			return r, err
		}
	}
	payload := []byte(row["payload"])
	says, err := w.schemas[v].Check(payload)
	switch {
	case err != nil:
		return r, refuse("%v", err)
	case says.ID != f.AggregateID:
		return r, refuse("/%s of the payload is not %s of the business row", v.ID.Name.Text, e.Source.AggregateID.Text)
	case strconv.FormatInt(says.Version, 10) != row["aggregate_version"]:
		return r, refuse("/%s of the payload is not the aggregate_version that %s returns", v.AggregateVersion.Name.Text, e.Source.Rebuild.Text)
	}
	return outbox.Record{
		EventID: id, AggregateType: e.Aggregate.Type.Text, AggregateID: says.ID, EventType: e.Name.Text,
		EventVersion: says.Version, SchemaVersion: int32(v.Number), Payload: made(payload), //nolint:gosec // events.yaml lets none above 9999 in
	}, nil
}

// statementColumns are what a statement of source.rebuild returns.
var statementColumns = []string{"payload", "aggregate_version", "schema_version"}

// runStatement returns the one row of a statement, by the names of its columns. Times are in UTC.
func (w *rewriter) runStatement(ctx context.Context, tx *outbox.Tx, file, statement, id string) (row map[string]string, err error) {
	if _, err := tx.ExecContext(ctx, "SET SESSION time_zone = '+00:00'"); err != nil {
		return nil, err
	}
	var nulls []string
	n := 0
	err = each(ctx, tx, statement, []any{id}, func(rows *sql.Rows) error {
		if n++; n > 1 {
			return refuse("%s returns more than one row for this event id", file)
		}
		row, nulls, err = nullableRow(rows)
		return err
	})
	switch info := w.outbox.Classify(orNone(err)); {
	case err == nil:
	case slices.Contains([]int{1046, 1054, 1064, 1142, 1143, 1146, 1305}, info.Code): // about names, syntax and rights
		return nil, &OptionError{fmt.Sprintf("%s can't be run: %v", file, err), "run its statement by hand, as the user of --dsn"}
	case info.Code != 0:
		return nil, fmt.Errorf("run %s: %w", file, quiet(w.outbox, err))
	default:
		return nil, err
	}
	if n == 0 {
		return nil, refuse("%s returns no row for this event id", file)
	}
	for _, name := range statementColumns[:2] {
		if _, is := row[name]; !is {
			return nil, &OptionError{fmt.Sprintf("%s returns no column %s", file, name), "name it by AS " + name}
		}
		if slices.Contains(nulls, name) {
			return nil, refuse("%s returns NULL as %s for this event id", file, name)
		}
	}
	for name := range row {
		if !slices.Contains(statementColumns, name) {
			return nil, &OptionError{fmt.Sprintf("%s returns a column other than %s", file, strings.Join(statementColumns, ", ")), "leave it out"}
		}
	}
	return row, nil
}

var errNone = errors.New("none")

func orNone(err error) error {
	if err == nil {
		return errNone
	}
	return err
}
