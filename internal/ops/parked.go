package ops

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// notAnEvent is the kind of a parked message that no handler can be given.
const notAnEvent = "message"

// PlanParked reads the parked events of a selection, in the order in which they were parked, those
// of an aggregate in the order of their versions.
func (s *Service) PlanParked(ctx context.Context, consumer string, sel Selection) (Plan, error) {
	plan := Plan{Consumer: consumer, selection: sel, Events: []PlannedEvent{}}
	if s.consumer(consumer) == nil {
		return plan, s.noConsumer(consumer)
	}
	if err := sel.check(); err != nil {
		return plan, err
	}
	add := func(e PlannedEvent) { plan.Events = append(plan.Events, e) }
	if len(sel.IDs) == 0 {
		if err := s.readParked(ctx, s.inbox(consumer), consumer, sel, nil, "", add); err != nil {
			return plan, err
		}
	}
	for ids := range slices.Chunk(sel.IDs, 500) {
		if err := s.readParked(ctx, s.inbox(consumer), consumer, sel, ids, "", add); err != nil {
			return plan, err
		}
	}
	plan.More = sel.Limit == 0 && len(plan.Events) == mostSelected
	inOrder(plan.Events)
	return plan, s.gone(ctx, &plan, func(ctx context.Context, id uuid.UUID) (string, error) { return s.doneWith(ctx, consumer, id) })
}

// inOrder puts events in the order in which they were parked, and gives the places of each
// aggregate's to its events by their versions.
func inOrder(events []PlannedEvent) {
	slices.SortFunc(events, func(a, b PlannedEvent) int { return cmp.Compare(a.place, b.place) })
	type aggregate struct{ typ, id string }
	places := map[aggregate][]int{}
	for i, e := range events {
		a := aggregate{e.AggregateType, e.AggregateID}
		places[a] = append(places[a], i)
	}
	for a, at := range places {
		if a.typ == "" || len(at) < 2 {
			continue
		}
		sorted := make([]PlannedEvent, len(at))
		for i, place := range at {
			sorted[i] = events[place]
		}
		slices.SortStableFunc(sorted, func(a, b PlannedEvent) int { return cmp.Compare(a.AggregateVersion, b.AggregateVersion) })
		for i, place := range at {
			events[place] = sorted[i]
		}
	}
}

// doneWith says what a consumer has made of an event that it hasn't parked.
func (s *Service) doneWith(ctx context.Context, consumer string, id uuid.UUID) (string, error) {
	var outcome int
	err := s.inbox(consumer).QueryRowContext(ctx, s.query("SELECT outcome FROM {consumed_event} WHERE consumer_name = ? AND event_id = ?"), consumer, id.String()).Scan(&outcome)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "not parked, and not processed yet", nil
	case err != nil:
		return "", fmt.Errorf("look at a dedup row: %w", err)
	}
	switch outbox.Handling(outcome) {
	case outbox.Applied, outbox.Skipped:
		return "already processed: " + outbox.Handling(outcome).String(), nil
	case outbox.Discarded:
		return "discarded", nil
	}
	return "not parked, but its dedup row says that it is: somebody has deleted it by hand", nil
}

// readParked reads parked events; of ids, when there are any. The lock is a clause of the SELECT.
func (s *Service) readParked(ctx context.Context, db outbox.DBTX, consumer string, sel Selection, ids []uuid.UUID, lock string, add func(PlannedEvent)) error {
	var where conditions
	where.add("p.consumer_name = ?", consumer)
	if len(ids) > 0 {
		places, args := in(texts(ids))
		where.add("p.event_id IN ("+places+")", args...)
	} else {
		where.add("p.event_id" + eventIDs)
	}
	if sel.behind != "" {
		where.add("p.id > CAST(? AS SIGNED)", sel.behind)
	}
	sel.narrow(&where, "p.event_type", "p.kind", "p.parked_at")
	if sel.AggregateType != "" {
		where.add("JSON_UNQUOTE(JSON_EXTRACT(p.attributes, '$.aggregatetype')) = ? AND JSON_UNQUOTE(JSON_EXTRACT(p.attributes, '$.subject')) = ?", sel.AggregateType, sel.AggregateID)
	}
	query := s.query(`SELECT p.id, p.event_id, p.event_type, p.kind, p.reason, p.attempts, COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', p.parked_at), 0),
  COALESCE(JSON_UNQUOTE(JSON_EXTRACT(p.attributes, '$.aggregatetype')), ''), COALESCE(JSON_UNQUOTE(JSON_EXTRACT(p.attributes, '$.subject')), ''),
  CAST(COALESCE(JSON_UNQUOTE(JSON_EXTRACT(p.attributes, '$.aggregateversion')), '0') AS SIGNED), COALESCE(r.operator, '')
FROM {parked_event} p
LEFT JOIN {consumer_redrive} r ON r.consumer_name = p.consumer_name AND r.event_id = p.event_id
WHERE ` + where.String() + " ORDER BY p.id LIMIT ? " + lock)
	return each(ctx, db, query, append(where.args, sel.limit()), func(rows *sql.Rows) error {
		var e PlannedEvent
		var id string
		if err := rows.Scan(&e.place, &id, &e.Type, &e.Kind, &e.Reason, &e.Attempts, &e.failedUs, &e.AggregateType, &e.AggregateID, &e.AggregateVersion, &e.Requested); err != nil {
			return err
		}
		var err error
		if e.EventID, err = uuid.Parse(id); err != nil {
			return nil //nolint:nilerr // written by hand; no id names it
		}
		e.FailedAt = time.UnixMicro(e.failedUs).UTC()
		add(e)
		return nil
	})
}

// RedriveParked asks the consumer's processes to hand the events of a plan to the handler
// again, in the plan's order, as fast as the pace allows, counted from now. Each is
// handed over once for it, however many ask. What came of it is in the audit, and in
// [Service.RedriveResults].
func (s *Service) RedriveParked(ctx context.Context, plan Plan, pace Pace) ([]Result, error) {
	asked := 0
	batches := pace
	batches.PerSecond = 0 // due_at spreads them out
	return batches.inBatches(ctx, plan.ids(), func(ids []uuid.UUID) (results []Result, err error) {
		err = change(ctx, s.inbox(plan.Consumer), func(tx *outbox.Tx) error {
			results, err = s.askRedrive(ctx, tx, plan, ids, asked, pace.interval())
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("ask for redrives: %w", err)
		}
		for _, r := range results {
			if r.Done {
				asked++
			}
		}
		return results, nil
	})
}

// askRedrive asks for a batch in a transaction; before it asked were.
func (s *Service) askRedrive(ctx context.Context, tx *outbox.Tx, plan Plan, ids []uuid.UUID, asked int, interval time.Duration) ([]Result, error) {
	locked := map[uuid.UUID]PlannedEvent{}
	err := s.readParked(ctx, tx, plan.Consumer, Selection{}, ids, "FOR UPDATE", func(e PlannedEvent) { locked[e.EventID] = e })
	if err != nil {
		return nil, err
	}
	results := make([]Result, 0, len(ids))
	var records []record
	for _, id := range ids {
		e, there := locked[id]
		r := Result{EventID: id, Consumer: plan.Consumer}
		switch {
		case !there:
			r.Note, err = "already processed: somebody else was first", nil
		case e.Kind == notAnEvent:
			r.Note = "not an event: there is nothing to hand to a handler; discard it, or leave it"
		case e.Requested != "":
			r.Note = "already asked for by " + e.Requested
		default:
			var n int64
			n, err = s.insertRedrive(ctx, tx, plan.Consumer, id, time.Duration(asked+len(records))*interval)
			if r.Done = n > 0; !r.Done {
				r.Note = "already asked for by somebody else"
				break
			}
			records = append(records, record{opParkedRedrive, plan.Consumer, id.String(), "selected: " + plan.selection.text()})
		}
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, s.write(ctx, tx, records...)
}

// insertRedrive asks for one redrive, due after a time; 0 when it is asked for already.
func (s *Service) insertRedrive(ctx context.Context, tx *outbox.Tx, consumer string, id uuid.UUID, after time.Duration) (int64, error) {
	done, err := tx.ExecContext(ctx, s.query("INSERT INTO {consumer_redrive} (consumer_name, event_id, operator, requested_at, due_at) VALUES (?, ?, ?, "+now+", "+now+" + INTERVAL ? MICROSECOND) ON DUPLICATE KEY UPDATE id = id"),
		consumer, id.String(), cut(s.operator, maxOperator), after.Microseconds())
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// DiscardParked gives the parked events of a plan up, for good: their bodies are deleted, and
// their dedup rows say so, so that a redelivery is absorbed until they are purged.
func (s *Service) DiscardParked(ctx context.Context, plan Plan, reason string, pace Pace) ([]Result, error) {
	return pace.inBatches(ctx, plan.ids(), func(ids []uuid.UUID) (results []Result, err error) {
		err = change(ctx, s.inbox(plan.Consumer), func(tx *outbox.Tx) error {
			results, err = s.discardParked(ctx, tx, plan.Consumer, ids, reason)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("discard parked events: %w", err)
		}
		return results, nil
	})
}

func (s *Service) discardParked(ctx context.Context, tx *outbox.Tx, consumer string, ids []uuid.UUID, reason string) ([]Result, error) {
	locked := map[uuid.UUID]PlannedEvent{}
	err := s.readParked(ctx, tx, consumer, Selection{}, ids, "FOR UPDATE", func(e PlannedEvent) { locked[e.EventID] = e })
	if err != nil {
		return nil, err
	}
	results := make([]Result, 0, len(ids))
	var discard []string
	var records []record
	for _, id := range ids {
		e, there := locked[id]
		if !there {
			results = append(results, Result{EventID: id, Consumer: consumer, Note: "already processed: somebody else was first"})
			continue
		}
		results = append(results, Result{EventID: id, Consumer: consumer, Done: true})
		discard = append(discard, id.String())
		records = append(records, record{opParkedDiscard, consumer, id.String(), fmt.Sprintf("%s (was parked for %s: %s)", reason, e.Kind, e.Reason)})
	}
	if len(discard) == 0 {
		return results, nil
	}
	places, args := in(discard)
	args = append([]any{consumer}, args...)
	for _, statement := range []string{
		"DELETE FROM {parked_event} WHERE consumer_name = ? AND event_id IN (" + places + ")",
		"UPDATE {consumed_event} SET outcome = 5 WHERE consumer_name = ? AND event_id IN (" + places + ") AND outcome = 4",
		"DELETE FROM {consumer_redrive} WHERE consumer_name = ? AND event_id IN (" + places + ")",
	} {
		if _, err := tx.ExecContext(ctx, s.query(statement), args...); err != nil {
			return nil, err
		}
	}
	return results, s.write(ctx, tx, records...)
}

// RedriveResults says what came of redrives that were asked for since a row of the audit, and
// how many of ids are still waiting. One that was discarded is none that was done.
func (s *Service) RedriveResults(ctx context.Context, consumer string, ids []uuid.UUID, since int64) (results []Result, waiting int, err error) {
	db := s.inbox(consumer)
	for chunk := range slices.Chunk(ids, 500) {
		places, args := in(texts(chunk))
		n := 0
		err := db.QueryRowContext(ctx, s.query("SELECT COUNT(*) FROM {consumer_redrive} WHERE consumer_name = ? AND event_id IN ("+places+")"), append([]any{consumer}, args...)...).Scan(&n)
		if err != nil {
			return nil, 0, fmt.Errorf("look at redrives: %w", err)
		}
		waiting += n
		query := s.query("SELECT event_id, operation, detail FROM {outbox_audit} FORCE INDEX ({ix_:outbox_audit_event}) WHERE event_id IN (" + places + ") AND consumer_name = ? AND id > ? AND operation IN ('parked.redriven', 'parked.redrive-failed', '" + opParkedDiscard + "') ORDER BY id")
		err = each(ctx, db, query, append(args, consumer, since), func(rows *sql.Rows) error {
			var id, operation, detail string
			if err := rows.Scan(&id, &operation, &detail); err != nil {
				return err
			}
			event, err := uuid.Parse(id)
			if operation == opParkedDiscard {
				detail = "discarded meanwhile: " + detail
			}
			results = append(results, Result{EventID: event, Consumer: consumer, Done: operation == "parked.redriven", Note: detail})
			return err
		})
		if err != nil {
			return nil, 0, fmt.Errorf("look at redrives: %w", err)
		}
	}
	return results, waiting, nil
}

// LastAudit is the newest row of the audit beside a consumer's tables, 0 without one.
func (s *Service) LastAudit(ctx context.Context, consumer string) (id int64, err error) {
	err = s.inbox(consumer).QueryRowContext(ctx, s.query("SELECT COALESCE(MAX(id), 0) FROM {outbox_audit}")).Scan(&id)
	return id, err
}
