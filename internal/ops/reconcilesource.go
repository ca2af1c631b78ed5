package ops

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// sourceTable is a table of business rows, and how it is read.
type sourceTable struct {
	spec.Source
	key       []keyColumn // its primary key, in order
	byCreated string      // the index that begins with created_at; empty without one
	byEvent   string      // the index that begins with event_id; empty without one
}

type keyColumn struct {
	name   string
	binary bool // its values are bytes, not text
}

func (t *sourceTable) keyList() string {
	names := make([]string, len(t.key))
	for i, k := range t.key {
		names[i] = ident(k.name)
	}
	return strings.Join(names, ", ")
}

// keyTypes are the types of columns that rows can be read in the order of.
var keyTypes = []string{"tinyint", "smallint", "mediumint", "int", "bigint", "char", "varchar", "binary", "varbinary", "date", "datetime", "timestamp", "uuid"}

// readSource finds out how the table of an event's source can be read.
func (r *reconciler) readSource(ctx context.Context, e *spec.Event) (*sourceTable, error) {
	t := &sourceTable{Source: *e.Source}
	types := map[string]string{}
	kind := ""
	err := each(ctx, r.db, `SELECT c.COLUMN_NAME, LOWER(c.DATA_TYPE), t.TABLE_TYPE
FROM information_schema.COLUMNS c JOIN information_schema.TABLES t ON t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME
WHERE c.TABLE_SCHEMA = DATABASE() AND c.TABLE_NAME = ?`, []any{t.Table.Text}, func(rows *sql.Rows) error {
		var name, dataType string
		if err := rows.Scan(&name, &dataType, &kind); err != nil {
			return err
		}
		types[strings.ToLower(name)] = dataType
		return nil
	})
	what := fmt.Sprintf("the table %s, the source of %s,", t.Table.Text, e.Name.Text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("look at %s in information_schema: %w", t.Table.Text, err)
	case len(types) == 0:
		return nil, &OptionError{what + " is not in this database, or this user may not see it", "name the database of the outbox by --dsn, and GRANT SELECT on the table to its user"}
	case !strings.EqualFold(kind, "BASE TABLE"):
		return nil, &OptionError{what + " is a view", "name the table of the business rows: it is read by its keys"}
	}
	for _, c := range []struct {
		role   string
		column spec.Name
		fits   []string
	}{
		{"event_id", t.EventID, []string{"char", "varchar", "tinytext", "text", "mediumtext", "uuid"}},
		{"aggregate_id", t.AggregateID, nil},
		{"created_at", t.CreatedAt, []string{"datetime", "timestamp"}},
	} {
		is, there := types[strings.ToLower(c.column.Text)]
		switch {
		case !there:
			return nil, &OptionError{fmt.Sprintf("%s has no column %s, which is %s of the source", what, c.column.Text, c.role), "correct events.yaml, or migrate the table; a user needs SELECT on a column to see it"}
		case c.fits != nil && !slices.Contains(c.fits, is):
			return nil, &OptionError{fmt.Sprintf("%s has a column %s of type %s, which can't be %s of the source", what, c.column.Text, is, c.role), "outboxgen explain source-column-type says what is needed"}
		}
	}
	if err := r.readIndexes(ctx, t, types); err != nil {
		return nil, err
	}
	if len(t.key) == 0 {
		return nil, &OptionError{what + " has no primary key", "add one: rows are read in its order, some at a time"}
	}
	for _, k := range t.key {
		if is := types[strings.ToLower(k.name)]; !slices.Contains(keyTypes, is) {
			return nil, &OptionError{fmt.Sprintf("%s has a primary key with a column of type %s", what, is), "rows are read in its order: use numbers, texts, times or bytes"}
		}
	}
	if t.byCreated != "" {
		r.note("%s is read by its index %s", t.Table.Text, t.byCreated)
	} else {
		r.note("%s is read whole, by its primary key, since no index begins with %s: CREATE INDEX ix_%s_%s ON %s (%s) makes it read the window alone",
			t.Table.Text, t.CreatedAt.Text, t.Table.Text, t.CreatedAt.Text, t.Table.Text, t.CreatedAt.Text)
	}
	return t, nil
}

// readIndexes reads which indexes there are that queries may use.
func (r *reconciler) readIndexes(ctx context.Context, t *sourceTable, types map[string]string) error {
	return each(ctx, r.db, "SHOW INDEX FROM "+ident(t.Table.Text), nil, func(rows *sql.Rows) error {
		row, err := namedRow(rows)
		if err != nil {
			return err
		}
		name, column := row["key_name"], row["column_name"]
		usable := row["visible"] != "NO" && row["ignored"] != "YES" && row["index_type"] == "BTREE"
		first := row["seq_in_index"] == "1" && usable && row["sub_part"] == ""
		switch {
		case name == "PRIMARY":
			is := types[strings.ToLower(column)]
			t.key = append(t.key, keyColumn{column, strings.Contains(is, "binary")})
			if first && strings.EqualFold(column, t.EventID.Text) && t.byEvent == "" {
				t.byEvent = name
			}
		case first && strings.EqualFold(column, t.CreatedAt.Text) && t.byCreated == "":
			t.byCreated = name
		case first && strings.EqualFold(column, t.EventID.Text):
			t.byEvent = name
		}
		return nil
	})
}

// namedRow is a row by the names of its columns, in lower case: servers show different ones.
func namedRow(rows *sql.Rows) (map[string]string, error) {
	row, _, err := nullableRow(rows)
	return row, err
}

// nullableRow tells which columns are NULL, too.
func nullableRow(rows *sql.Rows) (row map[string]string, nulls []string, err error) {
	names, err := rows.Columns()
	if err != nil {
		return nil, nil, err
	}
	values := make([]sql.NullString, len(names))
	into := make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	if err := rows.Scan(into...); err != nil {
		return nil, nil, err
	}
	row = map[string]string{}
	for i, name := range names {
		name = strings.ToLower(name)
		if row[name] = values[i].String; !values[i].Valid {
			nulls = append(nulls, name)
		}
	}
	return row, nulls, nil
}

// businessRow is a row of a source.
type businessRow struct {
	key         []any
	eventID     string
	aggregateID string
	createdUs   int64
}

// behind is the condition for rows behind a key.
func (t *sourceTable) behind(key []any) (text string, args []any) {
	var parts []string
	for i := range t.key {
		part := ""
		for j := range i {
			part += ident(t.key[j].name) + " = ? AND "
			args = append(args, key[j])
		}
		parts = append(parts, "("+part+ident(t.key[i].name)+" > ?)")
		args = append(args, key[i])
	}
	first := ""
	if len(t.key) > 1 { // what the optimiser makes a range of
		first = ident(t.key[0].name) + " >= ? AND "
		args = append([]any{key[0]}, args...)
	}
	return first + "(" + strings.Join(parts, " OR ") + ")", args
}

// upTo is the condition for rows up to a key.
func (t *sourceTable) upTo(key []any) (text string, args []any) {
	behind, args := t.behind(key)
	if len(t.key) == 1 {
		return ident(t.key[0].name) + " <= ?", key
	}
	return ident(t.key[0].name) + " <= ? AND NOT (" + behind + ")", append([]any{key[0]}, args...)
}

const at = "'1970-01-01' + INTERVAL ? MICROSECOND"

// rowsOf reads rows of a source.
func (t *sourceTable) rowsOf(ctx context.Context, db outbox.DBTX, index, where, rest string, args []any) (list []businessRow, err error) {
	query := fmt.Sprintf("SELECT %s, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', %s), %s, %s FROM %s FORCE INDEX (%s) WHERE %s %s",
		t.keyList(), ident(t.CreatedAt.Text), ident(t.EventID.Text), ident(t.AggregateID.Text), ident(t.Table.Text), ident(index), where, rest)
	err = each(ctx, db, query, args, func(rows *sql.Rows) error {
		row := businessRow{key: make([]any, len(t.key))}
		var created sql.NullInt64
		var event, aggregate sql.NullString
		if err := rows.Scan(append(pointers(row.key), &created, &event, &aggregate)...); err != nil {
			return err
		}
		row.createdUs, row.eventID, row.aggregateID = created.Int64, event.String, aggregate.String
		t.tidy(row.key)
		list = append(list, row)
		return nil
	})
	return list, err
}

func pointers(values []any) []any {
	out := make([]any, len(values))
	for i := range values {
		out[i] = &values[i]
	}
	return out
}

// tidy makes texts of bytes: the driver binds bytes with the collation of bytes.
func (t *sourceTable) tidy(key []any) {
	for i, v := range key {
		if b, is := v.([]byte); is {
			if key[i] = string(b); t.key[i].binary {
				key[i] = slices.Clone(b)
			}
		}
	}
}

// scan hands over the rows that were created in a window, some at a time.
func (t *sourceTable) scan(ctx context.Context, db outbox.DBTX, w Window, batch int, do func([]businessRow) error) error {
	if t.byCreated != "" {
		return t.scanCreated(ctx, db, w, batch, do)
	}
	return t.scanKey(ctx, db, w, batch, do)
}

// scanCreated goes along the index of created_at, whose entries end with the primary key.
func (t *sourceTable) scanCreated(ctx context.Context, db outbox.DBTX, w Window, batch int, do func([]businessRow) error) error {
	created := ident(t.CreatedAt.Text)
	from, args := w.From.UnixMicro(), []any(nil)
	more := ""
	for {
		rows, err := t.rowsOf(ctx, db, t.byCreated, created+" >= "+at+" AND "+created+" < "+at+more,
			fmt.Sprintf("ORDER BY %s, %s LIMIT %d", created, t.keyList(), batch), append([]any{from, w.To.UnixMicro()}, args...))
		if err != nil {
			return err
		}
		if err := do(rows); err != nil {
			return err
		}
		if len(rows) < batch {
			return nil
		}
		last := rows[len(rows)-1]
		from = last.createdUs
		behind, keys := t.behind(last.key)
		more = " AND (" + created + " > " + at + " OR " + behind + ")"
		args = append([]any{from}, keys...)
	}
}

// mostStep is how many rows are passed over together where none is of the window.
const mostStep = 50_000

// scanKey goes along the primary key, and leaves out what is not of the window: first it
// finds where so many rows end, then it reads those of them that count.
func (t *sourceTable) scanKey(ctx context.Context, db outbox.DBTX, w Window, batch int, do func([]businessRow) error) error {
	created := ident(t.CreatedAt.Text)
	after, args := "1 = 1", []any(nil)
	for step := batch; ; {
		end := make([]any, len(t.key))
		query := fmt.Sprintf("SELECT %s FROM %s FORCE INDEX (PRIMARY) WHERE %s ORDER BY %s LIMIT 1 OFFSET %d", t.keyList(), ident(t.Table.Text), after, t.keyList(), step-1)
		err := db.QueryRowContext(ctx, query, args...).Scan(pointers(end)...)
		last := err == sql.ErrNoRows //nolint:errorlint // database/sql's own
		if err != nil && !last {
			return err
		}
		where, all := after, slices.Clone(args)
		if !last {
			t.tidy(end)
			upTo, keys := t.upTo(end)
			where, all = where+" AND "+upTo, append(all, keys...)
		}
		rows, err := t.rowsOf(ctx, db, "PRIMARY", where+" AND "+created+" >= "+at+" AND "+created+" < "+at, "", append(all, w.From.UnixMicro(), w.To.UnixMicro()))
		if err != nil {
			return err
		}
		for part := range slices.Chunk(rows, batch) {
			if err := do(part); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
		after, args = t.behind(end)
		if step = min(2*step, mostStep); len(rows) > 0 {
			step = batch
		}
	}
}

// have reads which of these events have a business row.
func (t *sourceTable) have(ctx context.Context, db outbox.DBTX, ids []string) (map[string]bool, error) {
	out := map[string]bool{}
	places, args := inIDs(ids)
	query := fmt.Sprintf("SELECT %s FROM %s FORCE INDEX (%s) WHERE %s IN (%s)", ident(t.EventID.Text), ident(t.Table.Text), ident(t.byEvent), ident(t.EventID.Text), places)
	err := each(ctx, db, query, args, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		out[id] = true
		return err
	})
	return out, err
}

// still reads a business row once more, by its key.
func (t *sourceTable) still(ctx context.Context, db outbox.DBTX, key []any, eventID, lock string) (bool, error) {
	var parts []string
	for _, k := range t.key {
		parts = append(parts, ident(k.name)+" = ?")
	}
	n := 0
	query := fmt.Sprintf("SELECT 1 FROM %s FORCE INDEX (PRIMARY) WHERE %s AND %s = ? %s", ident(t.Table.Text), strings.Join(parts, " AND "), ident(t.EventID.Text), lock)
	err := db.QueryRowContext(ctx, query, append(slices.Clone(key), eventID)...).Scan(&n)
	if err == sql.ErrNoRows { //nolint:errorlint // database/sql's own
		return false, nil
	}
	return err == nil, err
}
