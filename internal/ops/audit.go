package ops

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
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

	us int64
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
	if q.Cursor != "" {
		us, err := strconv.ParseInt(q.Cursor, 10, 64)
		if err != nil {
			return page, badCursor(q.Cursor)
		}
		where.add("happened_at < '1970-01-01' + INTERVAL ? MICROSECOND", us)
	}
	limit := pageLimit(q.Limit)
	query := s.query("SELECT " + micros("happened_at") + ", operation, operator, consumer_name, event_id, detail FROM {outbox_audit} WHERE " + where.String() + " ORDER BY id DESC LIMIT ?")
	for _, db := range s.databases() {
		err := each(ctx, db, query, append(slices.Clone(where.args), limit+1), func(rows *sql.Rows) error {
			var a AuditEntry
			err := rows.Scan(&a.us, &a.Operation, &a.Operator, &a.Consumer, &a.EventID, &a.Detail)
			a.At = fromMicros(a.us)
			page.Items = append(page.Items, a)
			return err
		})
		if err != nil {
			return page, fmt.Errorf("read the audit: %w", err)
		}
	}
	slices.SortStableFunc(page.Items, func(a, b AuditEntry) int { return cmp.Compare(b.us, a.us) })
	if len(page.Items) > limit {
		// Those of one moment stay together: the cursor is a time.
		end := limit
		for end < len(page.Items) && page.Items[end].us == page.Items[end-1].us {
			end++
		}
		if end < len(page.Items) {
			page.Next = strconv.FormatInt(page.Items[end-1].us, 10)
		}
		page.Items = page.Items[:end]
	}
	return page, nil
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
