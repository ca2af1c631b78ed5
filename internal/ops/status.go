package ops

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// Status is how an outbox and its consumers are.
type Status struct {
	At        time.Time        `json:"at"` // by the outbox's database
	Service   string           `json:"service"`
	Ordering  string           `json:"ordering"`
	Events    Counts           `json:"events"`
	Oldest    *Waiting         `json:"oldest,omitempty"` // nil when nothing is due
	Flow      []Flow           `json:"flow"`             // by event type of events.yaml, in its order
	Sampled   bool             `json:"sampled"`          // Flow is of the newest 30,000 events: there were more in the hour
	Pause     *Pause           `json:"pause,omitempty"`
	Leases    []Lease          `json:"leases"`
	Relays    []Relay          `json:"relays"`
	Dead      []Group          `json:"dead"` // by type and kind of error, of the first 10,000
	Consumers []ConsumerStatus `json:"consumers"`
}

// Counts are events by status.
type Counts struct {
	Pending   int64 `json:"pending"` // those that are being published among them
	Published int64 `json:"published"`
	Dead      int64 `json:"dead"`
	Discarded int64 `json:"discarded"`

	// Estimated says that Published is the server's own estimate: there are too many to count.
	Estimated bool `json:"estimated"`
}

// Waiting is the event that has been due for longest.
type Waiting struct {
	EventID string    `json:"event_id"`
	Due     time.Time `json:"due"`
	Seconds float64   `json:"seconds"`
}

// Flow is how many events of a type were written, and published of these, lately.
type Flow struct {
	Type            string `json:"type"`
	WrittenMinute   int64  `json:"written_minute"`
	WrittenHour     int64  `json:"written_hour"`
	PublishedMinute int64  `json:"published_minute"` // of those written in the last hour
	PublishedHour   int64  `json:"published_hour"`
}

// Lease is what a relay's run holds.
type Lease struct {
	Owner string    `json:"owner"`
	Host  string    `json:"host,omitempty"`
	PID   int64     `json:"pid,omitempty"`
	Held  int64     `json:"held"` // lanes, or events with `ordering: none`
	From  time.Time `json:"from"` // when the first of them ends
	Until time.Time `json:"until"`
}

// Relay is a run of a relay that shows signs of life.
type Relay struct {
	Owner      string    `json:"owner"`
	Host       string    `json:"host"`
	PID        int64     `json:"pid"`
	StartedAt  time.Time `json:"started_at"`
	AliveUntil time.Time `json:"alive_until"`
}

// Group is how many events have something in common.
type Group struct {
	Type  string `json:"type,omitempty"`
	Kind  string `json:"kind"`
	Count int64  `json:"count"`
}

// The bounds of what is looked at for a status.
const (
	flowRows  = 30_000  // events, and dedup rows
	groupRows = 10_000  // dead events, and parked ones of a consumer
	countRows = 300_000 // published events that are counted one by one
)

// Status looks at the whole of it. It reads indexes, and the newest rows.
func (s *Service) Status(ctx context.Context) (Status, error) {
	st := Status{Service: s.model.Service.Text, Ordering: string(s.model.Outbox.Ordering), Leases: []Lease{}, Relays: []Relay{}, Dead: []Group{}}
	var err error
	if st.At, err = s.clock(ctx); err != nil {
		return st, err
	}
	return st, together(ctx, &st, s.counts, s.oldest, s.flow, s.leases, s.relays, s.deadGroups, s.consumerStatuses, s.pause)
}

// together looks at parts of a status at the same time; each sets fields of its own. The error is
// that of the first one in their order.
func together(ctx context.Context, st *Status, looks ...func(context.Context, *Status) error) error {
	errs := make([]error, len(looks))
	var all sync.WaitGroup
	for i, look := range looks {
		all.Go(func() { errs[i] = look(ctx, st) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) pause(ctx context.Context, st *Status) (err error) {
	st.Pause, err = s.Paused(ctx)
	return err
}

func (s *Service) counts(ctx context.Context, st *Status) error {
	published, err := s.estimate(ctx, "SELECT event_id FROM {outbox_event} FORCE INDEX ({ix_:outbox_event_claim}) WHERE status = 2")
	if err != nil {
		return err
	}
	query := "SELECT status, COUNT(*) FROM {outbox_event} FORCE INDEX ({ix_:outbox_event_claim}) "
	if st.Events.Estimated = published > countRows; st.Events.Estimated {
		st.Events.Published = published
		query += "WHERE status IN (0, 3, 4) "
	}
	err = each(ctx, s.outbox, s.query(query+"GROUP BY status"), nil, func(r *sql.Rows) error {
		var status int
		var n int64
		if err := r.Scan(&status, &n); err != nil {
			return err
		}
		switch status {
		case statusPending:
			st.Events.Pending = n
		case statusPublished:
			st.Events.Published = n
		case statusDead:
			st.Events.Dead = n
		case statusDiscarded:
			st.Events.Discarded = n
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("count events: %w", err)
	}
	return nil
}

// estimate is how many rows the server thinks that a query reads: it looks into the index for
// that, and reads none.
func (s *Service) estimate(ctx context.Context, query string) (n int64, err error) {
	err = each(ctx, s.outbox, "EXPLAIN "+s.query(query), nil, func(r *sql.Rows) error {
		names, err := r.Columns()
		if err != nil {
			return err
		}
		values := make([]sql.RawBytes, len(names))
		into := make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := r.Scan(into...); err != nil {
			return err
		}
		for i, name := range names {
			if name == "rows" {
				estimate, err := strconv.ParseInt(string(values[i]), 10, 64)
				if err == nil {
					n = max(n, estimate)
				}
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("estimate the published events: %w", err)
	}
	return n, nil
}

// oldest looks at the first entries of the index.
func (s *Service) oldest(ctx context.Context, st *Status) error {
	var id string
	var us int64
	query := "SELECT event_id, " + micros("available_at") + " FROM {outbox_event} FORCE INDEX ({ix_:outbox_event_claim}) WHERE status = 0 AND available_at <= " + now + " ORDER BY available_at, event_id LIMIT 1"
	var args []any
	if s.lanes() { // a jump from lane to lane, and then one entry of one of them
		var lane int
		var due string
		err := s.outbox.QueryRowContext(ctx, s.query("SELECT lane, CAST(oldest AS CHAR) FROM (SELECT status, lane, MIN(available_at) AS oldest FROM {outbox_event} FORCE INDEX ({ix_:outbox_event_claim}) WHERE status = 0 AND available_at <= "+now+" GROUP BY status, lane) d ORDER BY oldest LIMIT 1")).Scan(&lane, &due)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for the oldest event: %w", err)
		}
		query = "SELECT event_id, " + micros("available_at") + " FROM {outbox_event} FORCE INDEX ({ix_:outbox_event_claim}) WHERE status = 0 AND lane = ? AND available_at = CAST(? AS DATETIME(6)) LIMIT 1"
		args = []any{lane, due}
	}
	err := s.outbox.QueryRowContext(ctx, s.query(query), args...).Scan(&id, &us)
	switch {
	case errors.Is(err, sql.ErrNoRows): // none, or published meanwhile
		return nil
	case err != nil:
		return fmt.Errorf("look for the oldest event: %w", err)
	}
	st.Oldest = &Waiting{EventID: id, Due: fromMicros(us), Seconds: max(0, st.At.Sub(fromMicros(us)).Seconds())}
	return nil
}

// flow counts the events of the last hour, as far as the newest ones go.
func (s *Service) flow(ctx context.Context, st *Status) error {
	byType := map[string]Flow{}
	minute, first := idAt(st.At.Add(-time.Minute)), idAt(st.At.Add(-time.Hour))
	// No derived table with a LIMIT: the servers would write its rows into a temporary one.
	err := s.outbox.QueryRowContext(ctx, s.query("SELECT event_id FROM {outbox_event} FORCE INDEX (PRIMARY) WHERE event_id >= ? ORDER BY event_id DESC LIMIT 1 OFFSET ?"), first, flowRows-1).Scan(&first)
	switch {
	case err == nil:
		st.Sampled = true
	case !errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("count the newest events: %w", err)
	}
	query := s.query("SELECT event_type, COUNT(*), SUM(event_id >= ?), SUM(status = 2), SUM(status = 2 AND published_at >= " + now + " - INTERVAL 1 MINUTE) FROM {outbox_event} FORCE INDEX (PRIMARY) WHERE event_id >= ? GROUP BY event_type")
	err = each(ctx, s.outbox, query, []any{minute, first}, func(rows *sql.Rows) error {
		var f Flow
		err := rows.Scan(&f.Type, &f.WrittenHour, &f.WrittenMinute, &f.PublishedHour, &f.PublishedMinute)
		byType[f.Type] = f
		return err
	})
	if err != nil {
		return fmt.Errorf("count the newest events: %w", err)
	}
	st.Flow = make([]Flow, 0, len(s.model.Events))
	for _, e := range s.model.Events {
		f := byType[e.Name.Text]
		f.Type = e.Name.Text
		st.Flow = append(st.Flow, f)
	}
	return nil
}

func (s *Service) leases(ctx context.Context, st *Status) error {
	// With rows a leased one's available_at is its lease's end: the index bounds what is read.
	query := `SELECT e.lease_owner, COALESCE(r.host, ''), COALESCE(r.pid, 0), COUNT(*), ` + micros("MIN(e.lease_until)") + ", " + micros("MAX(e.lease_until)") + `
FROM {outbox_event} e FORCE INDEX ({ix_:outbox_event_claim}) LEFT JOIN {outbox_relay} r ON r.owner = e.lease_owner
WHERE e.status = 0 AND e.available_at > ` + now + ` AND e.lease_until > ` + now + " AND e.lease_owner <> '' GROUP BY e.lease_owner, r.host, r.pid"
	if s.lanes() {
		query = `SELECT l.lease_owner, COALESCE(r.host, ''), COALESCE(r.pid, 0), COUNT(*), ` + micros("MIN(l.lease_until)") + ", " + micros("MAX(l.lease_until)") + `
FROM {outbox_lane} l LEFT JOIN {outbox_relay} r ON r.owner = l.lease_owner
WHERE l.lease_until > ` + now + " AND l.lease_owner <> '' GROUP BY l.lease_owner, r.host, r.pid"
	}
	err := each(ctx, s.outbox, s.query(query), nil, func(rows *sql.Rows) error {
		var l Lease
		var from, until int64
		err := rows.Scan(&l.Owner, &l.Host, &l.PID, &l.Held, &from, &until)
		l.From, l.Until = fromMicros(from), fromMicros(until)
		st.Leases = append(st.Leases, l)
		return err
	})
	if err != nil {
		return fmt.Errorf("look at leases: %w", err)
	}
	return nil
}

func (s *Service) relays(ctx context.Context, st *Status) error {
	query := s.query("SELECT owner, host, pid, " + micros("started_at") + ", " + micros("alive_until") + " FROM {outbox_relay} WHERE alive_until > " + now + " ORDER BY started_at LIMIT 1000")
	err := each(ctx, s.outbox, query, nil, func(rows *sql.Rows) error {
		var r Relay
		var started, alive int64
		err := rows.Scan(&r.Owner, &r.Host, &r.PID, &started, &alive)
		r.StartedAt, r.AliveUntil = fromMicros(started), fromMicros(alive)
		st.Relays = append(st.Relays, r)
		return err
	})
	if err != nil {
		return fmt.Errorf("look at relays: %w", err)
	}
	return nil
}

func (s *Service) deadGroups(ctx context.Context, st *Status) error {
	query := s.query(`SELECT e.event_type, COALESCE(f.kind, ''), COUNT(*)
FROM (SELECT event_id, event_type FROM {outbox_event} FORCE INDEX ({ix_:outbox_event_claim}) WHERE status = 3 LIMIT ?) e
LEFT JOIN {outbox_failure} f ON f.event_id = e.event_id GROUP BY e.event_type, f.kind ORDER BY COUNT(*) DESC`)
	err := each(ctx, s.outbox, query, []any{groupRows}, func(rows *sql.Rows) error {
		var g Group
		err := rows.Scan(&g.Type, &g.Kind, &g.Count)
		st.Dead = append(st.Dead, g)
		return err
	})
	if err != nil {
		return fmt.Errorf("look at dead events: %w", err)
	}
	return nil
}

// typesOf are the event types that a consumer handles.
func typesOf(c *spec.Consumer) []string {
	out := make([]string, len(c.Handles))
	for i, e := range c.Handles {
		out[i] = e.Name.Text
	}
	return out
}
