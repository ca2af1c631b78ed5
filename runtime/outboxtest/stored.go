package outboxtest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// The tables that outboxgen makes, without `table_prefix`.
const (
	eventTable    = "outbox_event"
	laneTable     = "outbox_lane" // of `ordering: aggregate` alone
	consumedTable = "consumed_event"
	parkedTable   = "parked_event"
	failureTable  = "consumer_failure"
	versionTable  = "consumed_version"
)

// Filter says which events are meant. Empty fields stand for any.
type Filter struct {
	EventID       uuid.UUID
	Type          string // a generated EventType constant
	AggregateType string
	AggregateID   string
}

func (f Filter) String() string {
	var parts []string
	if f.EventID != uuid.Nil {
		parts = append(parts, "id "+f.EventID.String())
	}
	for _, p := range []struct{ name, value string }{
		{"type ", f.Type}, {"aggregate type ", f.AggregateType}, {"aggregate id ", f.AggregateID},
	} {
		if p.value != "" {
			parts = append(parts, p.name+p.value)
		}
	}
	if parts == nil {
		return "any event"
	}
	return "an event with " + strings.Join(parts, ", ")
}

func (f Filter) where() (condition string, args []any) {
	condition = "TRUE"
	add := func(column, value string) {
		if value != "" {
			condition += " AND " + column + " = ?"
			args = append(args, value)
		}
	}
	if f.EventID != uuid.Nil {
		add("event_id", f.EventID.String())
	}
	add("event_type", f.Type)
	add("aggregate_type", f.AggregateType)
	add("aggregate_id", f.AggregateID)
	return condition, args
}

// stored is a row of an outbox.
type stored struct {
	outbox.Envelope
	status      int
	attempts    int
	availableAt time.Time
}

// storedEvents reads the outboxes of the database, whatever their prefix, in the order
// in which events were written.
func storedEvents(ctx context.Context, db outbox.DBTX, f Filter) ([]stored, error) {
	tables, err := tablesLike(ctx, db, eventTable)
	if err != nil {
		return nil, err
	}
	if len(tables) == 0 {
		return nil, fmt.Errorf("the database has no table %s: run the statements of the generated Schema() first", eventTable)
	}
	var events []stored
	for _, table := range tables {
		of, err := storedIn(ctx, db, table, f)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", table, err)
		}
		events = append(events, of...)
	}
	return events, nil
}

func storedIn(ctx context.Context, db outbox.DBTX, table string, f Filter) (events []stored, err error) {
	where, args := f.where()
	rows, err := db.QueryContext(ctx,
		`SELECT event_id, aggregate_type, aggregate_id, event_type, event_version, schema_version, payload, headers,
			TIMESTAMPDIFF(MICROSECOND, '1970-01-01', created_at), status, attempts, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', available_at)
		FROM `+quoteName(table)+` WHERE `+where+` ORDER BY created_at, event_version, event_id`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var e stored
		var id string
		var payload, headers []byte
		var created, available int64
		if err := rows.Scan(&id, &e.AggregateType, &e.AggregateID, &e.Type, &e.AggregateVersion, &e.SchemaVersion,
			&payload, &headers, &created, &e.status, &e.attempts, &available); err != nil {
			return nil, err
		}
		if e.ID, err = outbox.ParseEventID(id); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(headers, &e.Headers); err != nil {
			return nil, err
		}
		e.Data, e.Time, e.availableAt = payload, time.UnixMicro(created).UTC(), time.UnixMicro(available).UTC()
		events = append(events, e)
	}
	return events, rows.Err()
}

// tablesLike are the tables of the database that are called so, with any prefix.
func tablesLike(ctx context.Context, db outbox.DBTX, name string) (tables []string, err error) {
	rows, err := db.QueryContext(ctx,
		`SELECT table_name FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND RIGHT(table_name, CHAR_LENGTH(?)) = ? ORDER BY table_name`,
		name, name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			return nil, err
		}
		tables = append(tables, table)
	}
	return tables, rows.Err()
}

func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
