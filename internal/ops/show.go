package ops

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// Life is everything that is known of an event.
type Life struct {
	EventID uuid.UUID `json:"event_id"`

	// Event is the outbox's row; nil when it has none. Note says then what that may mean.
	Event   *Event `json:"event,omitempty"`
	TraceID string `json:"trace_id,omitempty"`
	Note    string `json:"note,omitempty"`

	// Source is the business row that has the event's id, where events.yaml says where to look.
	Source *SourceRow `json:"source,omitempty"`

	// Consumers are those that handle the event, and those that have something of it.
	Consumers []Consumption `json:"consumers"`

	// Earlier and Later are how many other events the outbox has of the aggregate, up to 1000, by
	// their versions; NextID is the first of the later ones.
	Earlier int        `json:"earlier"`
	Later   int        `json:"later"`
	NextID  *uuid.UUID `json:"next_id,omitempty"`

	// Around says how far they were looked for, where that is not everywhere.
	Around string `json:"around,omitempty"`

	Audit []AuditEntry `json:"audit"`
}

// SourceRow is a business row.
type SourceRow struct {
	EventType   string `json:"event_type"`
	Table       string `json:"table"`
	AggregateID string `json:"aggregate_id"`
}

// mostSiblings bounds how many events of an aggregate are counted.
const mostSiblings = 1000

// nearbyRows is how many rows before and behind an event are looked at where no index leads to its aggregate.
const nearbyRows = 10_000

// smallTable is up to how many rows a business table without an index of event ids is read.
const smallTable = 100_000

// Show tells the whole life of an event. Of an id that nobody knows all is empty but Note.
func (s *Service) Show(ctx context.Context, id uuid.UUID) (Life, error) {
	life := Life{EventID: id, Consumers: []Consumption{}}
	found, err := s.events(ctx, []string{id.String()})
	if err != nil {
		return life, err
	}
	eventType := ""
	if len(found) == 1 {
		life.Event = &found[0]
		eventType = life.Event.Type
		if err := s.around(ctx, &life); err != nil {
			return life, err
		}
	}
	var unseen string
	if life.Source, unseen, err = s.sourceOf(ctx, id, eventType); err != nil {
		return life, err
	}
	if eventType == "" && life.Source != nil {
		eventType = life.Source.EventType
	}
	for _, c := range s.model.Consumers {
		state, err := s.Consumed(ctx, c.Name.Text, id)
		if err != nil {
			return life, err
		}
		state.Handles = handles(c, eventType)
		if state.Handles || state.State != stateOpen {
			life.Consumers = append(life.Consumers, state)
		}
	}
	audit, err := s.Audit(ctx, AuditQuery{EventID: id, Limit: 100})
	if err != nil {
		return life, err
	}
	life.Audit = audit.Items
	if life.Event == nil {
		life.Note = s.absence(life)
		if unseen != "" {
			life.Note += "; " + unseen
		}
	}
	return life, nil
}

func handles(c *spec.Consumer, event string) bool {
	for _, e := range c.Handles {
		if e.Name.Text == event {
			return true
		}
	}
	return false
}

// absence says what it may mean that the outbox has no row of an event.
func (s *Service) absence(life Life) string {
	keep := s.model.Outbox.KeepPublished
	consumed := false
	for _, c := range life.Consumers {
		consumed = consumed || c.State != stateOpen
	}
	gone := fmt.Sprintf("published, and purged after %s", keep)
	if keep == 0 {
		gone = "published, and deleted at once (keep_published: none)"
	}
	switch made := time.Unix(life.EventID.Time().UnixTime()); {
	case consumed && keep > 0 && life.EventID.Version() == 7 && time.Since(made) < keep:
		return "the outbox has no row of it, but consumers have: it was published, and its row was deleted, though it can't have been purged yet; outboxgen reconcile tells more"
	case consumed:
		return "the outbox has no row of it, but consumers have: it was " + gone
	case life.Source != nil && life.EventID.Version() == 7 && (keep == 0 || time.Since(made) > keep):
		return "the business row was committed; the outbox has no row of the event: it was most likely " + gone
	case life.Source != nil:
		return "committed without an event: the business row is there and the outbox has no row of it, though it can't have been purged yet; outboxgen reconcile tells more"
	default:
		return "nobody knows it: it was never written, its transaction was rolled back, or it was " + gone
	}
}

// around looks at the other events of the aggregate, and at the headers.
func (s *Service) around(ctx context.Context, life *Life) error {
	var trace sql.NullString
	err := s.outbox.QueryRowContext(ctx, s.query("SELECT JSON_UNQUOTE(JSON_EXTRACT(headers, '$.traceparent')) FROM {outbox_event} WHERE event_id = ?"), life.EventID.String()).Scan(&trace)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("read the trace: %w", err)
	}
	if parts := strings.Split(trace.String, "-"); len(parts) >= 4 && len(parts[1]) == 32 {
		life.TraceID = parts[1]
	}
	siblings, err := s.siblings(ctx, life)
	if err != nil {
		return err
	}
	own := sibling{life.EventID.String(), life.Event.AggregateVersion}
	var next sibling
	for _, other := range siblings {
		switch {
		case other.id == own.id:
		case other.before(own):
			life.Earlier++
		default:
			life.Later++
			if id, err := uuid.Parse(other.id); err == nil && (life.NextID == nil || other.before(next)) {
				life.NextID, next = &id, other
			}
		}
	}
	return nil
}

// before is the order of an aggregate's events: by version, and those of one version by id.
func (e sibling) before(other sibling) bool {
	return cmp.Or(cmp.Compare(e.version, other.version), cmp.Compare(e.id, other.id)) < 0
}

// siblings are the events of an event's aggregate, as far as they are looked for.
func (s *Service) siblings(ctx context.Context, life *Life) (out []sibling, err error) {
	e := life.Event
	if s.lanes() {
		return s.ofAggregate(ctx, e.AggregateType, e.AggregateID, mostSiblings)
	}
	life.Around = fmt.Sprintf("among the %d events written before it and the %d behind it: no index leads to others", nearbyRows, nearbyRows)
	for _, side := range []string{"event_id < ? ORDER BY event_id DESC", "event_id > ? ORDER BY event_id"} {
		query := s.query(`SELECT event_id, event_version FROM (SELECT event_id, event_version, aggregate_type, aggregate_id FROM {outbox_event} FORCE INDEX (PRIMARY) WHERE ` + side + ` LIMIT ?) nearby
WHERE aggregate_type = ? AND aggregate_id = ?`)
		err := each(ctx, s.outbox, query, []any{life.EventID.String(), nearbyRows, e.AggregateType, e.AggregateID}, func(rows *sql.Rows) error {
			var near sibling
			err := rows.Scan(&near.id, &near.version)
			out = append(out, near)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("look for the events of an aggregate: %w", err)
		}
	}
	return out, nil
}

// sourceOf finds the business row of an event; of any type when it is empty. A large table
// without an index that begins with the event's id is not read: note says so.
func (s *Service) sourceOf(ctx context.Context, id uuid.UUID, eventType string) (row *SourceRow, note string, err error) {
	for _, e := range s.model.Events {
		if e.Source == nil || eventType != "" && e.Name.Text != eventType {
			continue
		}
		quick, err := s.quick(ctx, e.Source)
		if err != nil {
			return nil, "", err
		}
		if !quick {
			note = fmt.Sprintf("no row of %s was looked for: it is not in this database or not to be seen, or it is large and has no index that begins with %s", e.Source.Table.Text, e.Source.EventID.Text)
			continue
		}
		row := SourceRow{EventType: e.Name.Text, Table: e.Source.Table.Text}
		err = s.outbox.QueryRowContext(ctx, fmt.Sprintf("SELECT CAST(%s AS CHAR) FROM %s WHERE %s = ? LIMIT 1",
			ident(e.Source.AggregateID.Text), ident(e.Source.Table.Text), ident(e.Source.EventID.Text)), id.String()).Scan(&row.AggregateID)
		switch {
		case err == nil:
			return &row, "", nil
		case !errors.Is(err, sql.ErrNoRows):
			return nil, "", fmt.Errorf("look into %s: %w", e.Source.Table.Text, err)
		}
	}
	return nil, note, nil
}

// quick reports a source's table that is small, or has an index that begins with the event's id.
func (s *Service) quick(ctx context.Context, src *spec.Source) (bool, error) {
	var rows, indexes int64
	err := s.outbox.QueryRowContext(ctx, `SELECT COALESCE(MAX(table_rows), ?), (SELECT COUNT(*) FROM information_schema.statistics
WHERE table_schema = DATABASE() AND table_name = ? AND column_name = ? AND seq_in_index = 1) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?`,
		smallTable+1, src.Table.Text, src.EventID.Text, src.Table.Text).Scan(&rows, &indexes)
	if err != nil {
		return false, fmt.Errorf("look for an index of %s: %w", src.Table.Text, err)
	}
	return indexes > 0 || rows <= smallTable, nil
}
