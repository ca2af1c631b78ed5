package ops

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// describeAtOnce is how many findings are looked at once more by one statement.
const describeAtOnce = 500

// describe looks at events once more, and hands over what a finding says of them.
func (r *reconciler) describe(ctx context.Context, events []eventRow, do func(e eventRow, f Finding, failure string)) error {
	for begin := 0; begin < len(events); begin += describeAtOnce {
		part := events[begin:min(begin+describeAtOnce, len(events))]
		ids := make([]string, len(part))
		for i, e := range part {
			ids[i] = e.id
		}
		rows, err := r.lookUp(ctx, ids)
		if err != nil {
			return err
		}
		places, args := in(ids)
		query := r.query(`SELECT e.event_id, e.aggregate_type, e.aggregate_id, e.event_version, COALESCE(f.kind, ''), COALESCE(f.reason, ''), COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', f.failed_at), 0)
FROM {outbox_event} e FORCE INDEX (PRIMARY) LEFT JOIN {outbox_failure} f ON f.event_id = e.event_id WHERE e.event_id IN (` + places + ") ORDER BY e.event_id")
		err = each(ctx, r.db, query, args, func(list *sql.Rows) error {
			var f Finding
			var kind, reason string
			var us int64
			if err := list.Scan(&f.EventID, &f.AggregateType, &f.AggregateID, &f.AggregateVersion, &kind, &reason, &us); err != nil {
				return err
			}
			e, is := rows[f.EventID]
			if !is {
				return nil // deleted meanwhile
			}
			f.Type = e.typ
			failure := ""
			if us != 0 {
				f.Since = time.UnixMicro(us).UTC()
				failure = kind + ": " + reason
			}
			do(e, f, failure)
			return nil
		})
		if err != nil {
			return fmt.Errorf("look at events once more: %w", err)
		}
	}
	return nil
}

// within are those of events that are looked at once more; the others are only counted,
// since enough is known to be different.
func (r *reconciler) within(events []eventRow, check Check) []eventRow {
	room := max(0, r.Limit-len(r.report.Findings))
	if len(events) <= room {
		return events
	}
	r.report.Counts[check] += int64(len(events) - room)
	r.report.Truncated = true
	return events[:room]
}

func (r *reconciler) addUnpublished(ctx context.Context, events []eventRow) error {
	var pending, dead []eventRow
	for _, e := range events {
		if e.status == statusDead {
			dead = append(dead, e)
		} else {
			pending = append(pending, e)
		}
	}
	for _, list := range [][]eventRow{r.within(pending, CheckNotPublished), r.within(dead, CheckDead)} {
		err := r.describe(ctx, list, func(e eventRow, f Finding, failure string) {
			switch f.Check = r.unpublished(e); {
			case f.Check == CheckDead:
				f.Detail = "dead (" + failure + "): once the cause is gone, outboxgen dead redrive publishes it"
			case f.Check == CheckNotPublished && failure != "":
				f.Detail = "pending, and failed (" + failure + "): a relay tries again; outboxgen status shows the relays"
			case f.Check == CheckNotPublished:
				f.Detail = "pending: outboxgen status shows the relays, their leases, and whether claims are paused"
			default:
				return // it is published by now
			}
			if f.Check == CheckNotPublished || f.Since.IsZero() {
				f.Since = e.due
			}
			r.add(f)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reconciler) addGhosts(ctx context.Context, of *event, events []eventRow) error {
	return r.describe(ctx, r.within(events, CheckNoSource), func(e eventRow, f Finding, _ string) {
		f.Check, f.Since = CheckNoSource, e.created
		f.Detail = fmt.Sprintf("no row of %s has this event id: it was deleted, or never committed with the event", of.source.Table.Text)
		r.add(f)
	})
}

func (r *reconciler) addNotApplied(ctx context.Context, c *comparedConsumer, events []eventRow) error {
	return r.describe(ctx, r.within(events, CheckNotApplied), func(e eventRow, f Finding, _ string) {
		f.Check, f.Consumer, f.Since = CheckNotApplied, c.name, e.published
		f.Detail = "published, and the consumer has no dedup row of it: it lags, never got it, or the row was deleted"
		r.add(f)
	})
}

func (r *reconciler) addParked(ctx context.Context, c *comparedConsumer, events []eventRow) error {
	events = r.within(events, CheckParked)
	if len(events) == 0 {
		return nil
	}
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.id
	}
	dedup := map[string]DedupRow{}
	if err := r.readDedup(ctx, c.db, c.name, ids, func(id string, d DedupRow) { dedup[id] = d }); err != nil {
		return err
	}
	parked := map[string]PlannedEvent{}
	if err := r.readParkedText(ctx, c, ids, parked); err != nil {
		return err
	}
	return r.describe(ctx, events, func(e eventRow, f Finding, _ string) {
		row, is := dedup[e.id]
		if !is || row.Outcome != outbox.Parked {
			return // redriven meanwhile
		}
		f.Check, f.Consumer, f.Since = CheckParked, c.name, row.At
		switch p, is := parked[e.id]; {
		case !is:
			f.Detail = "its dedup row says that it is parked, and the parked event is gone"
		case p.Requested != "":
			f.Detail = fmt.Sprintf("parked (%s: %s); %s has asked for its redrive", p.Kind, p.Reason, p.Requested)
		default:
			f.Detail = fmt.Sprintf("parked (%s: %s): once the cause is gone, outboxgen parked redrive %s handles it", p.Kind, p.Reason, c.name)
		}
		r.add(f)
	})
}

func (r *reconciler) readParkedText(ctx context.Context, c *comparedConsumer, ids []string, into map[string]PlannedEvent) error {
	err := r.readParked(ctx, c.db, c.name, Selection{IDs: parsed(ids)}, parsed(ids), "", func(p PlannedEvent) { into[p.EventID.String()] = p })
	if err != nil {
		return fmt.Errorf("read parked events of %s: %w", c.name, err)
	}
	return nil
}

// compareStrays looks once more at dedup rows without an event, those of all consumers together.
func (r *reconciler) compareStrays(ctx context.Context, strays map[string]bool) error {
	var ids []string
	for id := range strays {
		if _, is := r.named[id]; !is {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	for begin := 0; begin < len(ids); begin += describeAtOnce {
		if err := r.addStrays(ctx, ids[begin:min(begin+describeAtOnce, len(ids))]); err != nil {
			return err
		}
	}
	return nil
}

func (r *reconciler) addStrays(ctx context.Context, ids []string) error {
	processed, err := r.processed(ctx, r.consumers, ids)
	if err != nil {
		return err
	}
	have, err := r.lookUp(ctx, ids) // after what consumers have of them: one that was late is there by now
	if err != nil {
		return err
	}
	rows := map[string]Finding{}
	for _, e := range r.order {
		if e.source == nil || e.source.byEvent == "" {
			continue
		}
		places, args := in(ids)
		list, err := e.source.rowsOf(ctx, r.db, e.source.byEvent, ident(e.source.EventID.Text)+" IN ("+places+")", "", args)
		if err != nil {
			return fmt.Errorf("look up events in %s: %w", e.source.Table.Text, err)
		}
		for _, row := range list {
			rows[row.eventID] = Finding{
				Check: CheckNoEvent, Type: e.Name.Text, AggregateType: e.Aggregate.Type.Text, AggregateID: row.aggregateID,
				Since: time.UnixMicro(row.createdUs).UTC(), key: row.key, event: e,
			}
		}
	}
	for _, id := range ids {
		if _, is := have[id]; is || len(processed[id]) == 0 {
			continue
		}
		f, is := rows[id] // created outside of the window, by the business row's clock
		f.EventID, f.ProcessedBy = id, processed[id]
		if is {
			f = r.noEvent(f)
		} else {
			made, _ := idTime(id)
			f.Check, f.Since, f.Detail = CheckNoSource, made, "consumers have it, and there is neither an event nor, as far as was looked, a business row"
		}
		r.named[id] = struct{}{}
		r.add(f)
	}
	return nil
}
