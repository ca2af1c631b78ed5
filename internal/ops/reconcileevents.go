package ops

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// eventRow is what is compared of a row of the outbox.
type eventRow struct {
	id        string
	typ       string
	status    int
	created   time.Time
	due       time.Time // pending since
	published time.Time
	excused   bool // it waits for its time, or is being published
}

// idBound is below all ids of UUIDv7 that are made at a time or later, and above those before.
func idBound(t time.Time) string {
	ms := max(t.UnixMilli(), 0)
	return fmt.Sprintf("%08x-%04x-0000-0000-000000000000", ms>>16, ms&0xffff)
}

// idTime is when an id was made, by the clock of who made it; false unless it is a UUIDv7.
func idTime(id string) (time.Time, bool) {
	if len(id) != 36 || id[14] != '7' {
		return time.Time{}, false
	}
	ms, err := strconv.ParseInt(id[:8]+id[9:13], 16, 64)
	return time.UnixMilli(ms).UTC(), err == nil
}

// scanned is the stretch of ids that compareEvents goes through.
func (r *reconciler) scanned() (from, to string) {
	return idBound(r.report.Window.From.Add(-slack)), idBound(r.report.Window.To.Add(slack))
}

// readEvents reads rows of the outbox by a condition.
func (r *reconciler) readEvents(ctx context.Context, where, rest string, args ...any) (list []eventRow, err error) {
	due, excused := "e.available_at", "e.available_at > "+now
	if !r.lanes() { // available_at moves with the lease, whose token stays
		due = "IF(e.lease_token = 0, e.available_at, e.created_at)"
		excused = "e.lease_until > " + now + " OR e.lease_token = 0 AND e.available_at > " + now
	}
	query := r.query(`SELECT e.event_id, e.event_type, e.status, ` + micros("e.created_at") + `,
  ` + micros(due) + ", " + micros("e.published_at") + ", " + excused + `
FROM {outbox_event} e FORCE INDEX (PRIMARY) WHERE ` + where + " " + rest)
	err = each(ctx, r.db, query, args, func(rows *sql.Rows) error {
		var e eventRow
		var created, due, published int64
		if err := rows.Scan(&e.id, &e.typ, &e.status, &created, &due, &published, &e.excused); err != nil {
			return err
		}
		e.created, e.due, e.published = time.UnixMicro(created).UTC(), time.UnixMicro(max(due, created)).UTC(), time.UnixMicro(published).UTC()
		list = append(list, e)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return list, nil
}

// lookUp reads events by their ids.
func (r *reconciler) lookUp(ctx context.Context, ids []string) (map[string]eventRow, error) {
	out := make(map[string]eventRow, len(ids))
	if len(ids) == 0 {
		return out, nil
	}
	places, args := inIDs(ids)
	list, err := r.readEvents(ctx, "e.event_id IN ("+places+")", "", args...)
	for _, e := range list {
		out[e.id] = e
	}
	return out, err
}

// compareEvents goes through the events of the window in the order of their ids, and through
// what each consumer has of them, which lies in the same order.
func (r *reconciler) compareEvents(ctx context.Context) error {
	after, end := r.scanned()
	for last := false; !last; {
		events, err := r.readEvents(ctx, "e.event_id > ? AND e.event_id < ?", fmt.Sprintf("ORDER BY e.event_id LIMIT %d", r.Batch), after, end)
		if err != nil {
			return err
		}
		upTo := end
		if last = len(events) < r.Batch; !last {
			upTo = events[len(events)-1].id
		}
		r.report.Events += int64(len(events))
		r.Progress("events", r.report.Events)
		if err := r.compareState(ctx, events); err != nil {
			return err
		}
		if err := r.compareGhosts(ctx, events); err != nil {
			return err
		}
		strays := map[string]bool{}
		for _, c := range r.consumers {
			if !c.asked {
				continue
			}
			if err := r.compareConsumer(ctx, c, events, after, upTo, strays); err != nil {
				return err
			}
		}
		if err := r.compareStrays(ctx, strays); err != nil {
			return err
		}
		after = upTo
	}
	return nil
}

// inWindow reports an event that this comparison is about.
func (r *reconciler) inWindow(e eventRow) bool {
	return r.events[e.typ] != nil && r.report.Window.has(e.created)
}

// compareState looks for events that were not published.
func (r *reconciler) compareState(ctx context.Context, events []eventRow) error {
	var suspects []eventRow
	for _, e := range events {
		if r.inWindow(e) && r.unpublished(e) != "" {
			suspects = append(suspects, e)
		}
	}
	return r.addUnpublished(ctx, suspects)
}

// unpublished is what is wrong with an event, if anything is.
func (r *reconciler) unpublished(e eventRow) Check {
	switch {
	case e.status == statusDead:
		return CheckDead
	case e.status == statusPending && !e.excused && e.due.Before(r.now.Add(-r.PublishDelay)):
		return CheckNotPublished
	}
	return ""
}

// compareGhosts looks for events whose business row isn't there.
func (r *reconciler) compareGhosts(ctx context.Context, events []eventRow) error {
	for _, e := range r.order {
		if e.source == nil || e.source.byEvent == "" {
			continue
		}
		var of []eventRow
		var ids []string
		for _, row := range events {
			if row.typ == e.Name.Text && r.inWindow(row) {
				of = append(of, row)
				ids = append(ids, row.id)
			}
		}
		if len(of) == 0 {
			continue
		}
		have, err := e.source.have(ctx, r.db, ids)
		if err != nil {
			return fmt.Errorf("look up events in %s: %w", e.source.Table.Text, err)
		}
		of = slices.DeleteFunc(of, func(row eventRow) bool { return have[row.id] })
		if err := r.addGhosts(ctx, e, of); err != nil {
			return err
		}
	}
	return nil
}

// dedupOutcome is a dedup row as compareConsumer reads it.
type dedupOutcome struct {
	id      string
	outcome outbox.Handling
}

// compareConsumer goes through events and a consumer's dedup rows side by side. The ids of dedup
// rows that no event is there for are added to strays.
func (r *reconciler) compareConsumer(ctx context.Context, c *comparedConsumer, events []eventRow, after, upTo string, strays map[string]bool) error {
	var lacking, parked []eventRow
	next := 0
	lacks := func(e eventRow) {
		if r.lacks(c, e) {
			lacking = append(lacking, e)
		}
	}
	for last := false; !last; {
		rows, err := r.readOutcomes(ctx, c, after, upTo)
		if err != nil {
			return err
		}
		last = len(rows) < r.Batch
		for _, row := range rows {
			after = row.id
			for next < len(events) && events[next].id < row.id {
				lacks(events[next])
				next++
			}
			switch {
			case next == len(events) || events[next].id != row.id:
				if made, is := idTime(row.id); is && r.strayWindow().has(made) {
					strays[row.id] = true
				}
				continue
			case row.outcome == outbox.Parked && r.inWindow(events[next]):
				parked = append(parked, events[next])
			}
			next++
		}
	}
	for ; next < len(events); next++ {
		lacks(events[next])
	}
	if err := r.addNotApplied(ctx, c, lacking); err != nil {
		return err
	}
	return r.addParked(ctx, c, parked)
}

// lacks reports an event that a consumer should have processed, for lack of a dedup row.
func (r *reconciler) lacks(c *comparedConsumer, e eventRow) bool {
	compared := r.events[e.typ]
	return compared != nil && slices.Contains(compared.consumers, c) && e.status == statusPublished &&
		c.window.has(e.created) && e.published.Before(r.now.Add(-r.ApplyDelay))
}

// strayWindow is in which dedup rows without an event mean something; empty when they don't.
func (r *reconciler) strayWindow() Window {
	if r.model.Outbox.KeepPublished == 0 || r.Event != "" {
		return Window{}
	}
	return r.known
}

func (r *reconciler) readOutcomes(ctx context.Context, c *comparedConsumer, after, upTo string) (list []dedupOutcome, err error) {
	query := r.query(fmt.Sprintf("SELECT event_id, outcome FROM {consumed_event} FORCE INDEX ({uq_:consumed_event_identity}) WHERE consumer_name = ? AND event_id > ? AND event_id <= ? ORDER BY event_id LIMIT %d", r.Batch))
	err = each(ctx, c.db, query, []any{c.name, after, upTo}, func(rows *sql.Rows) error {
		var d dedupOutcome
		err := rows.Scan(&d.id, &d.outcome)
		list = append(list, d)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the dedup rows of %s: %w", c.name, err)
	}
	r.report.DedupRows += int64(len(list))
	return list, nil
}

// inIDs is the list of an IN: event ids as they are, since a server takes long to prepare
// thousands of placeholders, and placeholders where one is anything else.
func inIDs(ids []string) (list string, args []any) {
	var b strings.Builder
	for i, id := range ids {
		if len(id) > 36 || strings.Trim(id, "0123456789abcdef-") != "" {
			return in(ids)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("'" + id + "'")
	}
	return b.String(), nil
}
