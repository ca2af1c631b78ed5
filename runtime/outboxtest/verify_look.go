package outboxtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// statusNames are the values of an outbox row's status.
var statusNames = map[int]string{0: history.StatusPending, 2: history.StatusPublished, 3: history.StatusDead}

// business runs the query for business rows.
func (v *verification) business(ctx context.Context) (all []history.Business, err error) {
	rows, err := v.db.QueryContext(ctx, v.cfg.Business)
	if err != nil {
		return nil, fmt.Errorf("run Business: %w", err)
	}
	defer rows.Close()
	all = []history.Business{}
	for rows.Next() {
		var b history.Business
		var id string
		if err := rows.Scan(&b.RequestID, &id); err != nil {
			return nil, fmt.Errorf("run Business: want a request id and an event id a row: %w", err)
		}
		if b.EventID, err = outbox.ParseEventID(id); err != nil {
			return nil, fmt.Errorf("run Business: the second column: %w", err)
		}
		all = append(all, b)
	}
	return all, rows.Err()
}

// eventOf is the event in the business row of a request; none without one.
func (v *verification) eventOf(ctx context.Context, r Request) (id uuid.UUID, rows int, err error) {
	all, err := v.business(ctx)
	for _, b := range all {
		if b.RequestID == r.ID {
			id = b.EventID
			rows++
		}
	}
	return id, rows, err
}

// consumerRows reads consumer and event of all tables of that name.
func (v *verification) consumerRows(ctx context.Context, table string) (all []eventAt, err error) {
	tables, err := tablesLike(ctx, v.db, table)
	if err != nil {
		return nil, err
	}
	for _, name := range tables {
		rows, err := v.db.QueryContext(ctx, "SELECT event_id, consumer_name FROM "+quoteName(name))
		if err != nil {
			return nil, err
		}
		err = scanConsumerRows(rows, &all)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	return all, nil
}

func scanConsumerRows(rows *sql.Rows, all *[]eventAt) error {
	defer rows.Close()
	for rows.Next() {
		var at eventAt
		var id string
		if err := rows.Scan(&id, &at.consumer); err != nil {
			return err
		}
		var err error
		if at.event, err = uuid.Parse(id); err != nil { // an unreadable message has an id that isn't an event's
			return err
		}
		*all = append(*all, at)
	}
	return rows.Err()
}

// note changes the history.
func (v *verification) note(change func(*history.History)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change(&v.hist)
}

// fault notes that one has happened.
func (v *verification) fault(p fault.Point, outcome string, events ...uuid.UUID) {
	if events == nil {
		events = []uuid.UUID{}
	}
	v.note(func(h *history.History) {
		h.Faults = append(h.Faults, history.Fault{Point: string(p), Outcome: outcome, Events: events})
	})
}

func (v *verification) noteMessage(e outbox.Envelope) {
	v.note(func(h *history.History) { h.Messages = append(h.Messages, messageOf(e)) })
}

func messageOf(e outbox.Envelope) history.Message {
	return history.Message{EventID: e.ID, Aggregate: aggregateOf(e), Version: e.AggregateVersion, Payload: e.Data}
}

func (v *verification) noteClaimed(b *outbox.Batch) {
	v.note(func(*history.History) {
		for _, e := range b.Events {
			v.written[e.Envelope.ID] = e.Envelope
		}
	})
}

// noteAck notes that a consumer lets the broker have its acknowledgement.
func (v *verification) noteAck(ctx context.Context, at eventAt) {
	rows, err := v.consumerRows(context.WithoutCancel(ctx), consumedTable)
	if err != nil {
		v.log.logger().Error("read dedup rows", "error", err)
	}
	ack := history.Ack{EventID: at.event, Consumer: at.consumer, Dedup: slices.Contains(rows, at)}
	v.note(func(h *history.History) { h.Acks = append(h.Acks, ack) })
}

// rowState is what a row of the outbox says of its status and its lease.
type rowState struct {
	status, owner string
}

// marksOf reads the rows of a batch.
func (v *verification) marksOf(ctx context.Context, b *outbox.Batch) map[string]rowState {
	states := make(map[string]rowState, len(b.Events))
	for _, e := range b.Events {
		s, err := v.rowState(context.WithoutCancel(ctx), e.Key)
		switch {
		case err == nil:
			states[e.Key] = s
		case !errors.Is(err, sql.ErrNoRows):
			v.log.logger().Error("read the outbox", "error", err)
		}
	}
	return states
}

// rowState returns sql.ErrNoRows when the row is gone.
func (v *verification) rowState(ctx context.Context, id string) (s rowState, err error) {
	tables, err := tablesLike(ctx, v.db, eventTable)
	if err != nil {
		return s, err
	}
	err = sql.ErrNoRows
	for _, table := range tables {
		owner, from := "e.lease_owner", quoteName(table)+" e"
		if v.ordered {
			lanes := strings.TrimSuffix(table, eventTable) + laneTable
			owner, from = "l.lease_owner", from+" JOIN "+quoteName(lanes)+" l ON l.lane = e.lane"
		}
		var status int
		err = v.db.QueryRowContext(ctx, "SELECT e.status, "+owner+" FROM "+from+" WHERE e.event_id = ?", id).Scan(&status, &s.owner)
		if err == nil {
			s.status = statusNames[status]
			return s, nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return s, err
		}
	}
	return s, err
}

var outcomeNames = map[outbox.OutcomeKind]string{
	outbox.OutcomePublished: "published", outbox.OutcomeReleased: "released", outbox.OutcomeRetry: "retry", outbox.OutcomeDead: "dead",
}

// noteMarks tells of a settlement: what it said, and what became of the rows.
func (v *verification) noteMarks(
	ctx context.Context, relay string, b *outbox.Batch, outcomes []outbox.EventOutcome, result outbox.Settlement, before map[string]rowState,
) {
	after := v.marksOf(ctx, b)
	ids := make(map[string]uuid.UUID, len(b.Events))
	for _, e := range b.Events {
		ids[e.Key] = e.Envelope.ID
	}
	v.note(func(h *history.History) {
		for _, o := range outcomes {
			name, told := outcomeNames[o.Kind]
			if !told || o.Kind == outbox.OutcomeReleased {
				continue
			}
			m := history.Mark{
				EventID: ids[o.Key], Relay: relay, Kind: name, Owned: before[o.Key].owner == b.Owner.ID.String(),
				Before: before[o.Key].status, After: after[o.Key].status,
			}
			if _, there := after[o.Key]; !there && o.Kind == outbox.OutcomePublished {
				m.After = history.StatusPublished
				v.deleted[m.EventID] = true
			}
			m.Changed = !slices.Contains(result.Lost, o.Key) && m.Before != m.After
			h.Marks = append(h.Marks, m)
		}
	})
}

// known are the ids of all events that were ever seen in the outbox.
func (v *verification) known(ctx context.Context) (map[uuid.UUID]bool, error) {
	events, err := storedEvents(ctx, v.db, Filter{})
	if err != nil {
		return nil, err
	}
	ids := make(map[uuid.UUID]bool, len(events))
	for _, e := range events {
		ids[e.ID] = true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for id := range v.written {
		ids[id] = true
	}
	return ids, nil
}

// statuses are those of all events that were ever seen; one that is gone without having been
// marked has none.
func (v *verification) statuses(ctx context.Context) (map[uuid.UUID]string, error) {
	known, err := v.known(ctx)
	if err != nil {
		return nil, err
	}
	events, err := storedEvents(ctx, v.db, Filter{})
	if err != nil {
		return nil, err
	}
	statuses := make(map[uuid.UUID]string, len(known))
	v.mu.Lock()
	defer v.mu.Unlock()
	for id := range known {
		statuses[id] = ""
		if v.deleted[id] {
			statuses[id] = history.StatusPublished
		}
	}
	for _, e := range events {
		statuses[e.ID] = statusNames[e.status]
	}
	return statuses, nil
}

func without(ids, others map[uuid.UUID]bool) []uuid.UUID {
	rest := maps.Clone(ids)
	maps.DeleteFunc(rest, func(id uuid.UUID, _ bool) bool { return others[id] })
	return slices.Collect(maps.Keys(rest))
}
