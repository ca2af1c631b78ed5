package ops

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// ConsumerStatus is how a consumer is.
type ConsumerStatus struct {
	Name    string   `json:"name"`
	Handles []string `json:"handles"` // event types

	AppliedMinute int64 `json:"applied_minute"` // done with, in whatever way
	AppliedHour   int64 `json:"applied_hour"`   // as far as the newest 30,000 ids of dedup rows of its database go

	Parked   int64   `json:"parked"`
	ParkedBy []Group `json:"parked_by"` // by type and kind, of the first 10,000
	Redrives int64   `json:"redrives"`  // asked for, and not carried out yet
	Failing  int64   `json:"failing"`   // failed in the last hour, and not done with; up to 1000

	// Behind is how many of the newest 1000 published events that it handles it is not done with, of
	// those among the newest 10,000 events; BehindSeconds how long ago the first of them was published.
	Behind        int64   `json:"behind"`
	BehindSeconds float64 `json:"behind_seconds"`
}

const (
	behindRows   = 10_000
	behindEvents = 1000
	failingMost  = 1000
)

func (s *Service) consumerStatuses(ctx context.Context, st *Status) error {
	newest, err := s.newestPublished(ctx)
	if err != nil {
		return err
	}
	applied := map[*outbox.DB]map[string][2]int64{}
	st.Consumers = make([]ConsumerStatus, 0, len(s.model.Consumers))
	for _, c := range s.model.Consumers {
		db := s.inbox(c.Name.Text)
		if applied[db] == nil {
			counts, err := s.appliedLately(ctx, db)
			if err != nil {
				return err
			}
			applied[db] = counts
		}
		counts := applied[db][c.Name.Text]
		cs := ConsumerStatus{Name: c.Name.Text, Handles: typesOf(c), AppliedMinute: counts[0], AppliedHour: counts[1], ParkedBy: []Group{}}
		if err := s.consumerCounts(ctx, db, &cs); err != nil {
			return err
		}
		if err := s.behind(ctx, c, newest, st.At, &cs); err != nil {
			return err
		}
		st.Consumers = append(st.Consumers, cs)
	}
	return nil
}

// appliedLately counts a database's newest dedup rows by consumer: of the last minute, and hour.
func (s *Service) appliedLately(ctx context.Context, db *outbox.DB) (map[string][2]int64, error) {
	out := map[string][2]int64{}
	var last int64
	if err := db.QueryRowContext(ctx, s.query("SELECT COALESCE(MAX(id), 0) FROM {consumed_event}")).Scan(&last); err != nil {
		return nil, fmt.Errorf("look for the newest dedup row: %w", err)
	}
	query := s.query("SELECT consumer_name, SUM(consumed_at >= " + now + " - INTERVAL 1 MINUTE), COUNT(*) FROM {consumed_event} FORCE INDEX (PRIMARY) WHERE id > ? AND consumed_at >= " + now + " - INTERVAL 1 HOUR GROUP BY consumer_name")
	err := each(ctx, db, query, []any{last - flowRows}, func(rows *sql.Rows) error {
		var name string
		var n [2]int64
		err := rows.Scan(&name, &n[0], &n[1])
		out[name] = n
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count the newest dedup rows: %w", err)
	}
	return out, nil
}

func (s *Service) consumerCounts(ctx context.Context, db *outbox.DB, cs *ConsumerStatus) error {
	query := s.query("SELECT event_type, kind, COUNT(*) FROM (SELECT event_type, kind FROM {parked_event} FORCE INDEX ({ix_:parked_event_consumer}) WHERE consumer_name = ? ORDER BY id LIMIT ?) first GROUP BY event_type, kind ORDER BY COUNT(*) DESC")
	err := each(ctx, db, query, []any{cs.Name, groupRows}, func(rows *sql.Rows) error {
		var g Group
		err := rows.Scan(&g.Type, &g.Kind, &g.Count)
		cs.ParkedBy = append(cs.ParkedBy, g)
		return err
	})
	if err != nil {
		return fmt.Errorf("look at parked events: %w", err)
	}
	for _, count := range []struct {
		into  *int64
		query string
		args  []any
	}{
		{&cs.Parked, "SELECT COUNT(*) FROM {parked_event} WHERE consumer_name = ?", []any{cs.Name}},
		{&cs.Redrives, "SELECT COUNT(*) FROM {consumer_redrive} WHERE consumer_name = ?", []any{cs.Name}},
		{&cs.Failing, `SELECT COUNT(*) FROM (SELECT event_id FROM {consumer_failure} FORCE INDEX ({ix_:consumer_failure_age})
WHERE consumer_name = ? AND failed_at >= ` + now + ` - INTERVAL 1 HOUR ORDER BY failed_at DESC LIMIT ?) f
LEFT JOIN {consumed_event} c ON c.consumer_name = ? AND c.event_id = f.event_id WHERE c.id IS NULL`, []any{cs.Name, failingMost, cs.Name}},
	} {
		if err := db.QueryRowContext(ctx, s.query(count.query), count.args...).Scan(count.into); err != nil {
			return fmt.Errorf("look at the consumer %s: %w", cs.Name, err)
		}
	}
	return nil
}

// published is a published event, as a consumer's lag needs it.
type published struct {
	id, eventType string
	us            int64
}

// newestPublished reads the published ones among the newest events, the newest first.
func (s *Service) newestPublished(ctx context.Context) (out []published, err error) {
	query := s.query("SELECT event_id, event_type, " + micros("published_at") + " FROM (SELECT event_id, event_type, status, published_at FROM {outbox_event} FORCE INDEX (PRIMARY) ORDER BY event_id DESC LIMIT ?) newest WHERE status = 2 ORDER BY event_id DESC")
	err = each(ctx, s.outbox, query, []any{behindRows}, func(rows *sql.Rows) error {
		var p published
		err := rows.Scan(&p.id, &p.eventType, &p.us)
		out = append(out, p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look at the newest published events: %w", err)
	}
	return out, nil
}

// behind compares the newest published events with a consumer's dedup rows.
func (s *Service) behind(ctx context.Context, c *spec.Consumer, newest []published, at time.Time, cs *ConsumerStatus) error {
	left := map[string]int64{}
	var ids []string
	for _, p := range newest {
		if len(ids) < behindEvents && handles(c, p.eventType) {
			left[p.id] = p.us
			ids = append(ids, p.id)
		}
	}
	for chunk := range slices.Chunk(ids, 500) {
		if err := s.readDedup(ctx, s.inbox(cs.Name), cs.Name, chunk, func(id string, _ DedupRow) { delete(left, id) }); err != nil {
			return err
		}
	}
	cs.Behind = int64(len(left))
	for _, us := range left {
		cs.BehindSeconds = max(cs.BehindSeconds, at.Sub(fromMicros(us)).Seconds())
	}
	return nil
}
