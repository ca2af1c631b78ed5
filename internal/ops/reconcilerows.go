package ops

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// compareSources goes through the business rows of the window, and looks for their events.
func (r *reconciler) compareSources(ctx context.Context) error {
	for _, e := range r.order {
		if e.source == nil {
			continue
		}
		if r.model.Outbox.KeepPublished == 0 && len(e.consumers) == 0 {
			r.note("%s: whether a business row lacks its event can't be known: published events are deleted, and no consumer of this file handles it", e.Name.Text)
			continue
		}
		if e.source.byEvent == "" {
			r.note("%s: whether an event lacks its business row was not looked at: %s has no index on %s; CREATE INDEX ix_%s_%s ON %s (%s) adds one",
				e.Name.Text, e.source.Table.Text, e.source.EventID.Text, e.source.Table.Text, e.source.EventID.Text, e.source.Table.Text, e.source.EventID.Text)
		}
		with := Window{From: r.known.From.Add(-slack), To: r.known.To.Add(slack)}
		err := e.source.scan(ctx, r.db, with, r.Batch, func(rows []businessRow) error {
			r.report.BusinessRows += int64(len(rows))
			r.Progress("business rows", r.report.BusinessRows)
			return r.compareRows(ctx, e, rows)
		})
		if err != nil {
			return fmt.Errorf("read %s: %w", e.source.Table.Text, err)
		}
	}
	return nil
}

// compareRows looks for the events of business rows.
func (r *reconciler) compareRows(ctx context.Context, e *event, rows []businessRow) error {
	if len(rows) == 0 {
		return nil
	}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.eventID
	}
	have, err := r.created(ctx, ids)
	if err != nil {
		return err
	}
	from, to := r.scanned()
	var missing []businessRow
	var aside []string // ids that compareEvents doesn't come by
	for _, row := range rows {
		inWindow, is := have[row.eventID]
		inside := r.known.has(time.UnixMicro(row.createdUs))
		switch {
		case !is:
			missing = append(missing, row)
		case inside && (row.eventID <= from || row.eventID >= to || !inWindow):
			aside = append(aside, row.eventID)
		}
	}
	if err := r.compareMissing(ctx, e, missing); err != nil {
		return err
	}
	events, err := r.lookUp(ctx, aside)
	if err != nil {
		return err
	}
	return r.compareAside(ctx, e, slices.Collect(maps.Values(events)))
}

// created tells which events there are, and which of them were created in the window: no more
// is read of them, since compareEvents comes by nearly all.
func (r *reconciler) created(ctx context.Context, ids []string) (map[string]bool, error) {
	out := make(map[string]bool, len(ids))
	places, args := inIDs(ids)
	query := r.query("SELECT event_id, created_at >= " + at + " AND created_at < " + at + " FROM {outbox_event} FORCE INDEX (PRIMARY) WHERE event_id IN (" + places + ")")
	err := each(ctx, r.db, query, append([]any{r.report.Window.From.UnixMicro(), r.report.Window.To.UnixMicro()}, args...), func(rows *sql.Rows) error {
		var id string
		var inWindow bool
		err := rows.Scan(&id, &inWindow)
		out[id] = inWindow
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look up events: %w", err)
	}
	return out, nil
}

// compareMissing looks once more at business rows whose event isn't there.
func (r *reconciler) compareMissing(ctx context.Context, e *event, rows []businessRow) error {
	if len(rows) == 0 {
		return nil
	}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.eventID
	}
	have, err := r.lookUp(ctx, ids)
	if err != nil {
		return err
	}
	processed, err := r.processed(ctx, e.consumers, ids)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if _, is := have[row.eventID]; is {
			continue
		}
		f := Finding{
			Check: CheckNoEvent, EventID: row.eventID, Type: e.Name.Text, AggregateType: e.Aggregate.Type.Text, AggregateID: row.aggregateID,
			Since: time.UnixMicro(row.createdUs).UTC(), ProcessedBy: processed[row.eventID], key: row.key, event: e,
		}
		if _, err := outbox.ParseEventID(row.eventID); err != nil {
			f.EventID, f.Detail = "", fmt.Sprintf("%s of the business row is not an event id", e.source.EventID.Text)
		}
		if len(r.report.Findings) < r.Limit {
			is, err := e.source.still(ctx, r.db, row.key, row.eventID, "")
			if err != nil {
				return err
			}
			if !is {
				continue
			}
		}
		r.named[row.eventID] = struct{}{}
		if inside := r.known.has(f.Since); inside && r.model.Outbox.KeepPublished == 0 {
			r.judgeDeleted(f)
		} else if inside {
			r.add(r.noEvent(f))
		}
	}
	return nil
}

// noEvent says what is known of a business row without its event.
func (r *reconciler) noEvent(f Finding) Finding {
	switch {
	case f.Detail != "":
	case len(f.ProcessedBy) > 0:
		f.Detail = "the event's row is missing; it was published, since consumers have it"
	default:
		f.Detail = "the event was never written, or its row was deleted; no consumer has it"
	}
	if f.event.Source.Rebuild.Text == "" {
		f.Detail += fmt.Sprintf("; it can't be written anew without source.rebuild: write it by Write%s, with this id, in a transaction of your own", f.event.GoName)
	}
	return f
}

// judgeDeleted judges a business row without an event where published events are deleted: what
// consumers have written down is all that is left of them.
func (r *reconciler) judgeDeleted(f Finding) {
	if len(f.ProcessedBy) == 0 {
		if f.Since.Before(r.now.Add(-r.PublishDelay - r.ApplyDelay)) {
			r.unsure = append(r.unsure, f)
		}
		return
	}
	first := f.ProcessedBy[0].At
	by := map[string]Processed{}
	for _, p := range f.ProcessedBy {
		by[p.Consumer] = p
		if p.At.Before(first) {
			first = p.At
		}
	}
	for _, c := range f.event.consumers {
		p, is := by[c.name]
		g := f
		g.Consumer, g.ProcessedBy = c.name, nil
		switch {
		case !c.asked || !c.window.has(f.Since):
		case is && p.Outcome == outbox.Parked.String():
			g.Check, g.Since, g.Detail = CheckParked, p.At, "parked"
			r.add(g)
		case !is && first.Before(r.now.Add(-r.ApplyDelay)):
			g.Check, g.Since = CheckNotApplied, first
			g.Detail = "another consumer has it; its row is deleted, so that it can't be delivered again"
			r.add(g)
		}
	}
}

// lookAgain looks once more for events that were nowhere: one that was published and deleted
// just before may have been on its way to its consumers.
func (r *reconciler) lookAgain(ctx context.Context) error {
	if len(r.unsure) == 0 {
		return nil
	}
	r.Note(fmt.Sprintf("%d business rows have no event and no dedup row: looking again after --apply-delay, %s, since published events are deleted at once", len(r.unsure), short(r.ApplyDelay)))
	if !r.later(r.ApplyDelay) {
		return ctx.Err()
	}
	unsure := r.unsure
	for len(unsure) > 0 {
		n := min(len(unsure), r.Batch)
		part := unsure[:n]
		unsure = unsure[n:]
		ids := make([]string, n)
		for i, f := range part {
			ids[i] = f.EventID
		}
		have, err := r.lookUp(ctx, ids)
		if err != nil {
			return err
		}
		for _, f := range part {
			if _, is := have[f.EventID]; is {
				continue
			}
			processed, err := r.processed(ctx, f.event.consumers, []string{f.EventID})
			if err != nil {
				return err
			}
			is, err := f.event.source.still(ctx, r.db, f.key, f.EventID, "")
			if err != nil {
				return err
			}
			if is && len(processed) == 0 {
				r.add(r.noEvent(f))
			}
		}
	}
	return nil
}

// compareAside compares events that are outside of the ids that compareEvents goes through.
func (r *reconciler) compareAside(ctx context.Context, e *event, events []eventRow) error {
	if len(events) == 0 {
		return nil
	}
	var ids []string
	var unpublished []eventRow
	for _, row := range events {
		ids = append(ids, row.id)
		if r.unpublished(row) != "" {
			unpublished = append(unpublished, row)
		}
	}
	if err := r.addUnpublished(ctx, unpublished); err != nil {
		return err
	}
	for _, c := range e.consumers {
		if !c.asked {
			continue
		}
		outcomes := map[string]outbox.Handling{}
		if err := r.readDedup(ctx, c.db, c.name, ids, func(id string, d DedupRow) { outcomes[id] = d.Outcome }); err != nil {
			return err
		}
		var lacking, parked []eventRow
		for _, row := range events {
			outcome, is := outcomes[row.id]
			switch {
			case is && outcome == outbox.Parked:
				parked = append(parked, row)
			case !is && row.status == statusPublished && row.published.Before(r.now.Add(-r.ApplyDelay)):
				lacking = append(lacking, row)
			}
		}
		if err := r.addNotApplied(ctx, c, lacking); err != nil {
			return err
		}
		if err := r.addParked(ctx, c, parked); err != nil {
			return err
		}
	}
	return nil
}

// processed reads what consumers have written down of events.
func (r *reconciler) processed(ctx context.Context, consumers []*comparedConsumer, ids []string) (map[string][]Processed, error) {
	out := map[string][]Processed{}
	for _, c := range consumers {
		err := r.readDedup(ctx, c.db, c.name, ids, func(id string, d DedupRow) {
			out[id] = append(out[id], Processed{Consumer: c.name, Outcome: d.Outcome.String(), At: d.At})
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
