package ops

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// Query asks for events, the newest first. Zero values leave a condition out.
type Query struct {
	AggregateType string
	AggregateID   string // with AggregateType

	// Request is an entry's idempotency key: the values of the columns that `request` of a source has.
	Request []string

	Type   string
	Status string // pending, published, dead or discarded
	Since  time.Time
	Until  time.Time
	Before string // Next of the page before: an event id
	Limit  int    // default 50, at most 1000
}

const (
	// lookBack is how long a search reads rows that no index leads to.
	lookBack = 800 * time.Millisecond

	// lookBackRows is how many of them one statement reads.
	lookBackRows = 20_000

	// mostOfAggregate bounds how many events of an aggregate are looked at.
	mostOfAggregate = 10_000
)

var statuses = map[string]int{"pending": statusPending, "published": statusPublished, "dead": statusDead, "discarded": statusDiscarded}

// Find returns events. A search that would take long stops after 0.8 seconds: Note then says
// how far back it has looked, and Next goes on from there.
func (s *Service) Find(ctx context.Context, q Query) (Page[Event], error) {
	if q.Status != "" {
		if _, known := statuses[q.Status]; !known {
			return Page[Event]{}, &NotKnownError{What: "status", Name: q.Status, Have: []string{"pending", "published", "dead", "discarded"}}
		}
	}
	if q.Type != "" && s.event(q.Type) == nil {
		return Page[Event]{}, s.noEvent(q.Type)
	}
	var ids []string
	var next, note string
	var err error
	switch {
	case len(q.Request) > 0:
		ids, note, err = s.findRequest(ctx, q)
	case q.AggregateType != "" && s.lanes():
		ids, next, note, err = s.findAggregate(ctx, q)
	default:
		ids, next, note, err = s.findAny(ctx, q)
	}
	page := Page[Event]{Items: []Event{}, Next: next, Note: note}
	if err != nil {
		return page, err
	}
	page.Items, err = s.events(ctx, ids)
	return page, err
}

func (s *Service) event(name string) *spec.Event {
	for _, e := range s.model.Events {
		if e.Name.Text == name {
			return e
		}
	}
	return nil
}

func (s *Service) noEvent(name string) error {
	e := &NotKnownError{What: "event type", Name: name}
	for _, event := range s.model.Events {
		e.Have = append(e.Have, event.Name.Text)
	}
	return e
}

// findRequest finds the events of a request through the business tables.
func (s *Service) findRequest(ctx context.Context, q Query) (ids []string, note string, err error) {
	var columns []string
	for _, e := range s.model.Events {
		if e.Source == nil || q.Type != "" && e.Name.Text != q.Type {
			continue
		}
		names := make([]string, len(e.Source.Request))
		where := make([]string, len(e.Source.Request))
		for i, column := range e.Source.Request {
			names[i], where[i] = column.Text, ident(column.Text)+" = ?"
		}
		columns = append(columns, fmt.Sprintf("%s (%s)", e.Source.Table.Text, strings.Join(names, ", ")))
		if len(names) != len(q.Request) {
			continue
		}
		_, args := in(q.Request)
		query := fmt.Sprintf("SELECT CAST(%s AS CHAR) FROM %s WHERE %s LIMIT %d", ident(e.Source.EventID.Text), ident(e.Source.Table.Text), strings.Join(where, " AND "), pageMost)
		err := each(ctx, s.outbox, query, args, func(rows *sql.Rows) error {
			var id sql.NullString
			err := rows.Scan(&id)
			if id.Valid {
				ids = append(ids, id.String)
			}
			return err
		})
		if err != nil {
			return nil, "", fmt.Errorf("look into %s: %w", e.Source.Table.Text, err)
		}
	}
	switch {
	case len(columns) == 0:
		return nil, "", &NotKnownError{What: "source in events.yaml for", Name: cmp.Or(q.Type, "a request")}
	case len(ids) == 0:
		return nil, "no business row has this request; looked into " + strings.Join(columns, ", "), nil
	}
	slices.Sort(ids)
	return slices.Compact(ids), "business rows with this request have the event ids " + strings.Join(slices.Compact(ids), ", "), nil
}

// sibling is an event of an aggregate.
type sibling struct {
	id      string
	version int64
}

// ofAggregate finds events of an aggregate by the index that begins with its lane.
func (s *Service) ofAggregate(ctx context.Context, typ, id string, most int) ([]sibling, error) {
	var out []sibling
	for _, status := range []int{statusPending, statusDead, statusDiscarded, statusPublished} {
		query := s.query(fmt.Sprintf(`SELECT event_id, event_version FROM {outbox_event} FORCE INDEX ({ix_:outbox_event_claim})
WHERE status = ? AND lane = CRC32(CONCAT(?, ?)) %% %d AND aggregate_hash = CRC32(CONCAT(?, ?)) AND aggregate_type = ? AND aggregate_id = ?
ORDER BY available_at DESC LIMIT ?`, spec.LaneCount))
		err := each(ctx, s.outbox, query, []any{status, typ, id, typ, id, typ, id, most}, func(rows *sql.Rows) error {
			var e sibling
			err := rows.Scan(&e.id, &e.version)
			out = append(out, e)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("look for the events of an aggregate: %w", err)
		}
	}
	return out, nil
}

func (s *Service) findAggregate(ctx context.Context, q Query) (ids []string, next, note string, err error) {
	all, err := s.ofAggregate(ctx, q.AggregateType, q.AggregateID, mostOfAggregate)
	if err != nil {
		return nil, "", "", err
	}
	if len(all) >= mostOfAggregate {
		note = fmt.Sprintf("the aggregate has more events: of each state the newest %d were looked at", mostOfAggregate)
	}
	for _, e := range all {
		if _, err := uuid.Parse(e.id); err == nil && q.within(e.id) {
			ids = append(ids, e.id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(b, a) })
	if q.Type != "" || q.Status != "" { // what the index doesn't say
		if ids, err = s.narrow(ctx, q, ids); err != nil {
			return nil, "", "", err
		}
	}
	if limit := pageLimit(q.Limit); len(ids) > limit {
		ids, next = ids[:limit], ids[limit-1]
	}
	return ids, next, note, nil
}

// within reports an id that is before the cursor and in the time asked for.
func (q Query) within(id string) bool {
	return (q.Before == "" || id < q.Before) && (q.Since.IsZero() || id >= idAt(q.Since)) && (q.Until.IsZero() || id < idAt(q.Until))
}

// conditions are those of a search on outbox_event.
func (q Query) conditions() *conditions {
	where := &conditions{}
	where.add("event_id" + eventIDs)
	if q.AggregateType != "" {
		where.add("aggregate_type = ?", q.AggregateType)
		if q.AggregateID != "" {
			where.add("aggregate_id = ?", q.AggregateID)
		}
	}
	if q.Type != "" {
		where.add("event_type = ?", q.Type)
	}
	if q.Status != "" {
		where.add("status = ?", statuses[q.Status])
	}
	return where
}

// narrow leaves those of ids that a search asks for, in their order.
func (s *Service) narrow(ctx context.Context, q Query, ids []string) ([]string, error) {
	var out []string
	for chunk := range slices.Chunk(ids, 1000) {
		places, args := in(chunk)
		where := q.conditions()
		where.add("event_id IN ("+places+")", args...)
		if err := s.ids(ctx, "SELECT event_id FROM {outbox_event} FORCE INDEX (PRIMARY) WHERE "+where.String()+" ORDER BY event_id DESC", where.args, &out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *Service) ids(ctx context.Context, query string, args []any, into *[]string) error {
	err := each(ctx, s.outbox, s.query(query), args, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		*into = append(*into, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("look for events: %w", err)
	}
	return nil
}

// findAny goes by the status, where few events have it, or else back from the newest event.
func (s *Service) findAny(ctx context.Context, q Query) (ids []string, next, note string, err error) {
	if q.Status != "" && q.Status != "published" {
		n := 0
		err := s.outbox.QueryRowContext(ctx, s.query("SELECT COUNT(*) FROM (SELECT 1 FROM {outbox_event} FORCE INDEX ({ix_:outbox_event_claim}) WHERE status = ? LIMIT ?) some"),
			statuses[q.Status], lookBackRows+1).Scan(&n)
		if err != nil {
			return nil, "", "", fmt.Errorf("look for events: %w", err)
		}
		if n <= lookBackRows {
			ids, next, err := s.findStatus(ctx, q)
			return ids, next, "", err
		}
	}
	return s.lookBack(ctx, q)
}

// findStatus finds events that are not published by the index that begins with the status.
func (s *Service) findStatus(ctx context.Context, q Query) (ids []string, next string, err error) {
	where := q.conditions()
	q.bounds(where)
	limit := pageLimit(q.Limit)
	err = s.ids(ctx, "SELECT event_id FROM {outbox_event} FORCE INDEX ({ix_:outbox_event_claim}) WHERE "+where.String()+" ORDER BY event_id DESC LIMIT ?", append(where.args, limit+1), &ids)
	if len(ids) > limit {
		ids, next = ids[:limit], ids[limit-1]
	}
	return ids, next, err
}

func (q Query) bounds(where *conditions) {
	if q.Before != "" {
		where.add("event_id < ?", q.Before)
	}
	if !q.Since.IsZero() {
		where.add("event_id >= ?", idAt(q.Since))
	}
	if !q.Until.IsZero() {
		where.add("event_id < ?", idAt(q.Until))
	}
}

// lookBack reads rows by the primary key, the newest first, for a time.
func (s *Service) lookBack(ctx context.Context, q Query) (ids []string, next, note string, err error) {
	limit, deadline := pageLimit(q.Limit), time.Now().Add(lookBack)
	if q.Before != "" {
		if _, err := uuid.Parse(q.Before); err != nil {
			return nil, "", "", badCursor(q.Before)
		}
	}
	for {
		rows := &conditions{}
		rows.add("event_id" + eventIDs)
		q.bounds(rows)
		where := q.conditions()
		last, n := "", 0
		query := s.query("SELECT COALESCE(MIN(event_id), ''), COUNT(*) FROM (SELECT event_id FROM {outbox_event} FORCE INDEX (PRIMARY) WHERE " + rows.String() + " ORDER BY event_id DESC LIMIT ?) part")
		if err := s.outbox.QueryRowContext(ctx, query, append(slices.Clone(rows.args), lookBackRows)...).Scan(&last, &n); err != nil {
			return nil, "", "", fmt.Errorf("look for events: %w", err)
		}
		if n == 0 {
			return ids, "", "", nil
		}
		q.bounds(where)
		where.add("event_id >= ?", last)
		want := limit - len(ids) + 1
		if err := s.ids(ctx, "SELECT event_id FROM {outbox_event} FORCE INDEX (PRIMARY) WHERE "+where.String()+" ORDER BY event_id DESC LIMIT ?", append(where.args, want), &ids); err != nil {
			return nil, "", "", err
		}
		if len(ids) > limit {
			return ids[:limit], ids[limit-1], "", nil
		}
		q.Before = last
		if time.Now().After(deadline) {
			return ids, last, "looked back to " + madeAt(last) + "; no index leads to older ones: go on from the cursor", nil
		}
	}
}

// madeAt says when an id was made.
func madeAt(id string) string {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 {
		return "the event " + id
	}
	return time.Unix(u.Time().UnixTime()).UTC().Format(time.RFC3339)
}
