package ops

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// PlannedEvent is an event that is to be changed, as it was when somebody looked at it.
type PlannedEvent struct {
	EventID          uuid.UUID `json:"event_id"`
	Type             string    `json:"type"`
	AggregateType    string    `json:"aggregate_type"`
	AggregateID      string    `json:"aggregate_id"`
	AggregateVersion int64     `json:"aggregate_version"`
	Attempts         int       `json:"attempts"`
	Kind             string    `json:"kind"`   // of the last error
	Reason           string    `json:"reason"` // the last error
	FailedAt         time.Time `json:"failed_at,omitzero"`

	// Requested is who has asked for the redrive of a parked event already.
	Requested string `json:"requested,omitempty"`

	place    int64 // in the order of its aggregate: available_at
	failedUs int64
}

// Plan is what a redrive or a discard would do.
type Plan struct {
	Consumer string         `json:"consumer,omitempty"` // of parked events
	Events   []PlannedEvent `json:"events"`             // in the order in which they go

	// More says that there are more than the 100,000 that are planned at a time.
	More bool `json:"more,omitempty"`

	// Gone are event ids of the selection that are not there: not dead, or not parked, any more.
	Gone []Result `json:"gone,omitempty"`

	selection Selection
}

func (p Plan) ids() []uuid.UUID {
	out := make([]uuid.UUID, len(p.Events))
	for i, e := range p.Events {
		out[i] = e.EventID
	}
	return out
}

// PlanDead reads the dead events of a selection, in the order of their aggregates.
func (s *Service) PlanDead(ctx context.Context, sel Selection) (Plan, error) {
	plan := Plan{selection: sel, Events: []PlannedEvent{}}
	if err := sel.check(); err != nil {
		return plan, err
	}
	add := func(e PlannedEvent) { plan.Events = append(plan.Events, e) }
	if len(sel.IDs) == 0 {
		if err := s.readDead(ctx, s.outbox, sel, nil, "", add); err != nil {
			return plan, err
		}
	}
	for ids := range slices.Chunk(sel.IDs, 500) {
		if err := s.readDead(ctx, s.outbox, sel, ids, "", add); err != nil {
			return plan, err
		}
	}
	plan.More = sel.Limit == 0 && len(plan.Events) == mostSelected
	slices.SortFunc(plan.Events, func(a, b PlannedEvent) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.AggregateVersion, b.AggregateVersion), cmp.Compare(a.EventID.String(), b.EventID.String()))
	})
	return plan, s.gone(ctx, &plan, s.stateOf)
}

// gone finds out what became of the ids that a plan lacks.
func (s *Service) gone(ctx context.Context, plan *Plan, state func(context.Context, uuid.UUID) (string, error)) error {
	have := map[uuid.UUID]bool{}
	for _, e := range plan.Events {
		have[e.EventID] = true
	}
	for _, id := range plan.selection.IDs {
		if have[id] {
			continue
		}
		have[id] = true
		note, err := state(ctx, id)
		if err != nil {
			return err
		}
		plan.Gone = append(plan.Gone, Result{EventID: id, Consumer: plan.Consumer, Note: note})
	}
	return nil
}

// stateOf says what an event is that isn't dead.
func (s *Service) stateOf(ctx context.Context, id uuid.UUID) (string, error) {
	var status int
	err := s.outbox.QueryRowContext(ctx, s.query("SELECT status FROM {outbox_event} WHERE event_id = ?"), id.String()).Scan(&status)
	switch {
	case err == sql.ErrNoRows: //nolint:errorlint // database/sql's own
		return "the outbox has no such event: it was never written, or was published and purged", nil
	case err != nil:
		return "", fmt.Errorf("look at an event: %w", err)
	}
	return notDead(status), nil
}

// notDead says what a status is that somebody took for dead.
func notDead(status int) string {
	switch status {
	case statusPending:
		return "not dead: it is pending, as after a redrive"
	case statusPublished:
		return "already published"
	case statusDiscarded:
		return "discarded"
	default:
		return "dead"
	}
}

// readDead reads dead events; of ids, when there are any. The lock is a clause of the SELECT.
func (s *Service) readDead(ctx context.Context, db outbox.DBTX, sel Selection, ids []uuid.UUID, lock string, add func(PlannedEvent)) error {
	var where conditions
	status, index := statusDead, s.query("{ix_:outbox_event_claim}")
	if sel.Discarded {
		status = statusDiscarded
	}
	where.add("e.status = ?", status)
	if len(ids) > 0 {
		places, args := in(texts(ids))
		where.add("e.event_id IN ("+places+")", args...)
		index = "PRIMARY"
	}
	order := ""
	if len(ids) == 0 {
		order = " ORDER BY e.event_id"
		where.add("e.event_id" + eventIDs)
	}
	if sel.behind != "" {
		where.add("e.event_id > ?", sel.behind)
	}
	sel.narrow(&where, "e.event_type", "f.kind", "f.failed_at")
	if sel.AggregateType != "" {
		where.add("e.aggregate_type = ? AND e.aggregate_id = ?", sel.AggregateType, sel.AggregateID)
	}
	query := s.query(`SELECT e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.event_version, e.attempts,
  COALESCE(f.kind, ''), COALESCE(f.reason, ''), COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', f.failed_at), 0),
  COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', e.available_at), 0)
FROM {outbox_event} e FORCE INDEX (` + index + `)
LEFT JOIN {outbox_failure} f ON f.event_id = e.event_id
WHERE ` + where.String() + order + " LIMIT ? " + lock)
	return each(ctx, db, query, append(where.args, sel.limit()), func(rows *sql.Rows) error {
		var e PlannedEvent
		var id string
		if err := rows.Scan(&id, &e.Type, &e.AggregateType, &e.AggregateID, &e.AggregateVersion, &e.Attempts, &e.Kind, &e.Reason, &e.failedUs, &e.place); err != nil {
			return err
		}
		var err error
		if e.EventID, err = uuid.Parse(id); err != nil {
			return nil //nolint:nilerr // written by hand; no relay can publish it, and no id names it
		}
		if e.failedUs != 0 {
			e.FailedAt = time.UnixMicro(e.failedUs).UTC()
		}
		add(e)
		return nil
	})
}

// RedriveDead makes the events of a plan due again, with no attempt counted. However
// many do it at the same time, each event is made due once for the death that the plan saw:
// one that has died again since stays dead.
func (s *Service) RedriveDead(ctx context.Context, plan Plan, pace Pace) ([]Result, error) {
	set := "status = 0, attempts = 0, available_at = " + now + ", lease_owner = ''"
	if s.lanes() { // available_at is its place in the order, and stays
		set = "status = 0, attempts = 0, next_attempt_at = '1970-01-01 00:00:00'"
	}
	return s.changeDead(ctx, plan, pace, set, record{operation: opDeadRedrive, detail: "selected: " + plan.selection.text()})
}

// DiscardDead gives the events of a plan up, for good: they stay in the table as discarded,
// and nobody publishes them.
func (s *Service) DiscardDead(ctx context.Context, plan Plan, reason string, pace Pace) ([]Result, error) {
	return s.changeDead(ctx, plan, pace, "status = 4", record{operation: opDeadDiscard, detail: reason})
}

func (s *Service) changeDead(ctx context.Context, plan Plan, pace Pace, set string, audit record) ([]Result, error) {
	planned := map[uuid.UUID]PlannedEvent{}
	for _, e := range plan.Events {
		planned[e.EventID] = e
	}
	return pace.inBatches(ctx, plan.ids(), func(ids []uuid.UUID) (results []Result, err error) {
		err = change(ctx, s.outbox, func(tx *outbox.Tx) error {
			results, err = s.changeDeadIn(ctx, tx, plan.selection, planned, ids, set, audit)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("change dead events: %w", err)
		}
		return results, nil
	})
}

// changeDeadIn changes a batch in a transaction.
func (s *Service) changeDeadIn(ctx context.Context, tx *outbox.Tx, sel Selection, planned map[uuid.UUID]PlannedEvent, ids []uuid.UUID, set string, audit record) ([]Result, error) {
	locked := map[uuid.UUID]PlannedEvent{}
	err := s.readDead(ctx, tx, Selection{Discarded: sel.Discarded}, ids, "FOR UPDATE", func(e PlannedEvent) { locked[e.EventID] = e })
	if err != nil {
		return nil, err
	}
	var change []string
	var records []record
	results := make([]Result, 0, len(ids))
	for _, id := range ids {
		was, is := planned[id], locked[id]
		switch {
		case is.EventID != id:
			results = append(results, Result{EventID: id, Note: "already processed: somebody else was first"})
		case is.failedUs != was.failedUs || is.Attempts != was.Attempts:
			results = append(results, Result{EventID: id, Note: "already processed, and it died again since: look at it anew"})
		default:
			results = append(results, Result{EventID: id, Done: true})
			change = append(change, id.String())
			r := audit
			r.eventID = id.String()
			records = append(records, r)
		}
	}
	if len(change) == 0 {
		return results, nil
	}
	places, args := in(change)
	done, err := tx.ExecContext(ctx, s.query("UPDATE {outbox_event} FORCE INDEX (PRIMARY) SET "+set+" WHERE event_id IN ("+places+") AND status IN (3, 4)"), args...)
	if err != nil {
		return nil, err
	}
	n, err := done.RowsAffected()
	if err == nil && int(n) != len(change) {
		err = fmt.Errorf("%d events were locked and %d changed", len(change), n)
	}
	if err != nil {
		return nil, err
	}
	return results, s.write(ctx, tx, records...)
}
