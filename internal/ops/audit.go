package ops

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// AuditEntry is something that people did, or what came of it.
type AuditEntry struct {
	At        time.Time `json:"at"`
	Operation string    `json:"operation"`
	Operator  string    `json:"operator"`
	Consumer  string    `json:"consumer,omitempty"`
	EventID   string    `json:"event_id,omitempty"`
	Detail    string    `json:"detail"`

	id, us int64
}

// AuditQuery asks for a part of the audit, the newest first. Zero values leave a condition out.
type AuditQuery struct {
	EventID   uuid.UUID
	Operator  string
	Operation string
	Cursor    string // Next of the page before
	Limit     int    // default 50, at most 1000
}

// Audit returns what people did, from the databases of the outbox and of all consumers.
func (s *Service) Audit(ctx context.Context, q AuditQuery) (Page[AuditEntry], error) {
	page := Page[AuditEntry]{Items: []AuditEntry{}}
	var where conditions
	where.add("1 = 1")
	if q.EventID != uuid.Nil {
		where.add("event_id = ?", q.EventID.String())
	}
	if q.Operator != "" {
		where.add("operator = ?", q.Operator)
	}
	if q.Operation != "" {
		where.add("operation = ?", q.Operation)
	}
	where.add("id < ?")
	databases := s.databases()
	last, err := auditPlaces(q.Cursor, len(databases))
	if err != nil {
		return page, err
	}
	limit := pageLimit(q.Limit)
	query := s.query("SELECT id, " + micros("happened_at") + ", operation, operator, consumer_name, event_id, detail FROM {outbox_audit} WHERE " + where.String() + " ORDER BY id DESC LIMIT ?")
	lists := make([][]AuditEntry, len(databases))
	for i, db := range databases {
		err := each(ctx, db, query, append(slices.Clone(where.args), last[i], limit+1), func(rows *sql.Rows) error {
			var a AuditEntry
			err := rows.Scan(&a.id, &a.us, &a.Operation, &a.Operator, &a.Consumer, &a.EventID, &a.Detail)
			a.At = fromMicros(a.us)
			lists[i] = append(lists[i], a)
			return err
		})
		if err != nil {
			return page, fmt.Errorf("read the audit: %w", err)
		}
	}
	for {
		newest := -1
		for i, list := range lists {
			if len(list) > 0 && (newest < 0 || list[0].us > lists[newest][0].us) {
				newest = i
			}
		}
		switch {
		case newest < 0:
			return page, nil
		case len(page.Items) == limit:
			page.Next = auditCursor(last)
			return page, nil
		}
		entry := lists[newest][0]
		page.Items, lists[newest], last[newest] = append(page.Items, entry), lists[newest][1:], entry.id
	}
}

// auditPlaces reads how far a list went in each database: a cursor is the ids of the last
// rows that it had. Many rows may have one time.
func auditPlaces(cursor string, databases int) ([]int64, error) {
	last := slices.Repeat([]int64{math.MaxInt64}, databases)
	if cursor == "" {
		return last, nil
	}
	parts := strings.Split(cursor, ".")
	if len(parts) != databases {
		return nil, badCursor(cursor)
	}
	for i, part := range parts {
		if part == "" {
			continue // none of it yet
		}
		id, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return nil, badCursor(cursor)
		}
		last[i] = id
	}
	return last, nil
}

func auditCursor(last []int64) string {
	parts := make([]string, len(last))
	for i, id := range last {
		if id != math.MaxInt64 {
			parts[i] = strconv.FormatInt(id, 10)
		}
	}
	return strings.Join(parts, ".")
}

// databases are those that have tables of ours.
func (s *Service) databases() []*outbox.DB {
	out := []*outbox.DB{s.outbox}
	for _, c := range s.model.Consumers {
		if db := s.inbox(c.Name.Text); !slices.Contains(out, db) {
			out = append(out, db)
		}
	}
	return out
}

// badCursor refuses a cursor that no page gave.
func badCursor(text string) error { return &NotKnownError{What: "place in the list", Name: text} }
