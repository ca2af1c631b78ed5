package ops

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Page is a part of a list.
type Page[T any] struct {
	Items []T `json:"items"`

	// Next is the cursor of what follows; empty at the end.
	Next string `json:"next,omitempty"`

	// Note says how far the list goes, where it is not all there is.
	Note string `json:"note,omitempty"`
}

// The length of a page: what is had where none is asked for, and at most.
const (
	pageDefault = 50
	pageMost    = 1000
)

func pageLimit(n int) int {
	if n <= 0 {
		return pageDefault
	}
	return min(n, pageMost)
}

// Event is what the outbox knows of an event. It has nothing of its payload.
type Event struct {
	EventID          uuid.UUID  `json:"event_id"`
	Type             string     `json:"type"`
	SchemaVersion    int        `json:"schema_version"`
	AggregateType    string     `json:"aggregate_type"`
	AggregateID      string     `json:"aggregate_id"`
	AggregateVersion int64      `json:"aggregate_version"`
	State            string     `json:"state"` // PENDING, PUBLISHING, PUBLISHED, DEAD or DISCARDED
	Attempts         int        `json:"attempts"`
	LeaseOwner       string     `json:"lease_owner,omitempty"`
	LeaseHost        string     `json:"lease_host,omitempty"`
	LeasePID         int64      `json:"lease_pid,omitempty"`
	LeaseUntil       *time.Time `json:"lease_until,omitempty"`
	LastErrorKind    string     `json:"last_error_kind,omitempty"`
	LastError        string     `json:"last_error,omitempty"`
	FailedAt         *time.Time `json:"failed_at,omitempty"` // the last failed attempt
	CreatedAt        time.Time  `json:"created_at"`
	AvailableAt      time.Time  `json:"available_at"` // when it is, or was last, due
	PublishedAt      *time.Time `json:"published_at,omitempty"`
}

// micros is a time of the database as microseconds since 1970; 0 where it has none.
func micros(column string) string {
	return "CAST(COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " + column + "), 0) AS SIGNED)"
}

func fromMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }

// timeOrNone is nil for a time that isn't there.
func timeOrNone(us int64) *time.Time {
	if us == 0 {
		return nil
	}
	t := fromMicros(us)
	return &t
}

// events reads events by their ids, in the order of the ids; those that aren't there are left out.
func (s *Service) events(ctx context.Context, ids []string) ([]Event, error) {
	if len(ids) == 0 {
		return []Event{}, nil
	}
	places, args := in(ids)
	byID := map[string]Event{}
	query := s.query(`SELECT v.event_id, v.event_type, e.schema_version, v.aggregate_type, v.aggregate_id, v.event_version, v.state, v.attempts,
  COALESCE(v.lease_owner, ''), COALESCE(v.lease_host, ''), COALESCE(v.lease_pid, 0), ` + micros("v.lease_until") + `,
  COALESCE(v.last_error_kind, ''), COALESCE(v.last_error, ''), ` + micros("f.failed_at") + ", " + micros("v.created_at") + ", " + micros("v.available_at") + ", " + micros("v.published_at") + `
FROM {outbox_event_state} v JOIN {outbox_event} e ON e.event_id = v.event_id LEFT JOIN {outbox_failure} f ON f.event_id = v.event_id
WHERE v.event_id IN (` + places + ")")
	err := each(ctx, s.outbox, query, args, func(rows *sql.Rows) error {
		var e Event
		var id string
		var until, failed, created, available, published int64
		if err := rows.Scan(&id, &e.Type, &e.SchemaVersion, &e.AggregateType, &e.AggregateID, &e.AggregateVersion, &e.State, &e.Attempts,
			&e.LeaseOwner, &e.LeaseHost, &e.LeasePID, &until, &e.LastErrorKind, &e.LastError, &failed, &created, &available, &published); err != nil {
			return err
		}
		e.EventID, _ = uuid.Parse(id) // zero for a row written by hand
		e.CreatedAt, e.AvailableAt = fromMicros(created), fromMicros(available)
		e.LeaseUntil, e.FailedAt, e.PublishedAt = timeOrNone(until), timeOrNone(failed), timeOrNone(published)
		if e.State != "PUBLISHING" { // with rows the lease's last owner stays
			e.LeaseOwner, e.LeaseHost, e.LeasePID, e.LeaseUntil = "", "", 0, nil
		}
		byID[id] = e
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	out := make([]Event, 0, len(ids))
	for _, id := range ids {
		if e, there := byID[id]; there {
			out = append(out, e)
		}
	}
	return out, nil
}

// clock is the database's, in UTC.
func (s *Service) clock(ctx context.Context) (time.Time, error) {
	var us int64
	if err := s.outbox.QueryRowContext(ctx, "SELECT "+micros(now)).Scan(&us); err != nil {
		return time.Time{}, fmt.Errorf("ask for the time: %w", err)
	}
	return fromMicros(us), nil
}

// idAt is the smallest event id of a time: ids are UUIDv7, and sort by when they were made.
func idAt(t time.Time) string {
	ms := max(t.UnixMilli(), 0)
	return fmt.Sprintf("%08x-%04x", ms>>16, ms&0xffff)
}

// Consumption is what a consumer has made of an event.
type Consumption struct {
	Consumer string     `json:"consumer"`
	State    string     `json:"state"` // applied, skipped, parked, discarded, failing, or open: nothing yet
	Done     bool       `json:"done"`  // it will not be handled again by itself
	At       *time.Time `json:"at,omitempty"`
	Kind     string     `json:"kind,omitempty"` // what it was parked for
	Reason   string     `json:"reason,omitempty"`
	Attempts int        `json:"attempts,omitempty"` // failed ones

	// RedriveBy is who has asked for a redrive that waits, RedriveAt when it is due.
	RedriveBy string     `json:"redrive_by,omitempty"`
	RedriveAt *time.Time `json:"redrive_at,omitempty"`

	// Handles says that events.yaml has the event's type among those that it handles.
	Handles bool `json:"handles"`
}

// The states of a consumption that no dedup row says.
const (
	stateFailing = "failing"
	stateOpen    = "open"
)

// Consumed tells what a consumer has made of an event.
func (s *Service) Consumed(ctx context.Context, consumer string, id uuid.UUID) (Consumption, error) {
	if s.consumer(consumer) == nil {
		return Consumption{}, s.noConsumer(consumer)
	}
	c := Consumption{Consumer: consumer, State: stateOpen}
	db, key := s.inbox(consumer), []any{consumer, id.String()}
	read := func(query string, into ...any) (bool, error) {
		err := db.QueryRowContext(ctx, s.query(query), key...).Scan(into...)
		if errors.Is(err, sql.ErrNoRows) {
			return false, nil
		}
		return err == nil, err
	}
	var failed, parked, done, due int64
	var outcome outbox.Handling
	if there, err := read("SELECT attempts, reason, "+micros("failed_at")+" FROM {consumer_failure} WHERE consumer_name = ? AND event_id = ?", &c.Attempts, &c.Reason, &failed); err != nil {
		return c, fmt.Errorf("look for failed attempts: %w", err)
	} else if there {
		c.State, c.At = stateFailing, timeOrNone(failed)
	}
	if there, err := read("SELECT outcome, "+micros("consumed_at")+" FROM {consumed_event} WHERE consumer_name = ? AND event_id = ?", &outcome, &done); err != nil {
		return c, fmt.Errorf("look for a dedup row: %w", err)
	} else if there {
		c.State, c.At, c.Done, c.Reason = outcome.String(), timeOrNone(done), true, ""
	}
	if there, err := read("SELECT kind, reason, attempts, "+micros("parked_at")+" FROM {parked_event} WHERE consumer_name = ? AND event_id = ?", &c.Kind, &c.Reason, &c.Attempts, &parked); err != nil {
		return c, fmt.Errorf("look for a parked event: %w", err)
	} else if there {
		c.State, c.At = outbox.Parked.String(), timeOrNone(parked)
	}
	if there, err := read("SELECT operator, "+micros("due_at")+" FROM {consumer_redrive} WHERE consumer_name = ? AND event_id = ?", &c.RedriveBy, &due); err != nil {
		return c, fmt.Errorf("look for a redrive: %w", err)
	} else if there {
		c.RedriveAt = timeOrNone(due)
	}
	return c, nil
}
