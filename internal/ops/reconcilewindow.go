package ops

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// slack is how far the clocks of writers may be from the database's, and how long a writer may
// take from making an event's id to its commit.
const slack = 10 * time.Minute

// OptionError is something in the options that can't be done, with a way out.
type OptionError struct{ Problem, Hint string }

func (e *OptionError) Error() string { return e.Problem }

// open takes connections that read what is committed, in UTC.
func (r *reconciler) open(ctx context.Context) (closeAll func(), err error) {
	conns := map[*outbox.DB]*sql.Conn{}
	closeAll = func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}
	conn := func(db *outbox.DB) (outbox.DBTX, error) {
		if c, ok := conns[db]; ok {
			return c, nil
		}
		c, err := db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		conns[db] = c
		for _, set := range []string{"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET SESSION time_zone = '+00:00'"} {
			if _, err := c.ExecContext(ctx, set); err != nil {
				return nil, err
			}
		}
		return c, nil
	}
	if r.db, err = conn(r.outbox); err != nil {
		return closeAll, fmt.Errorf("connect to the outbox's database: %w", err)
	}
	if r.Consumer != "" && r.consumer(r.Consumer) == nil {
		return closeAll, r.noConsumer(r.Consumer)
	}
	for _, c := range r.model.Consumers {
		db, err := conn(r.inbox(c.Name.Text))
		if err != nil {
			return closeAll, fmt.Errorf("connect to the database of %s: %w", c.Name.Text, err)
		}
		asked := r.Consumer == "" || r.Consumer == c.Name.Text
		r.consumers = append(r.consumers, &comparedConsumer{name: c.Name.Text, db: db, retain: c.Retain, asked: asked})
	}
	return closeAll, nil
}

// prepare finds out what is compared, and how far back that can be done.
func (r *reconciler) prepare(ctx context.Context) error {
	var us int64
	if err := r.db.QueryRowContext(ctx, "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', "+now+")").Scan(&us); err != nil {
		return fmt.Errorf("read the database's clock: %w", err)
	}
	r.now = time.UnixMicro(us).UTC()
	r.report.At = r.now
	if err := r.db.QueryRowContext(ctx, r.query("SELECT COALESCE(MAX(id), 0) FROM {outbox_audit}")).Scan(&r.report.audit); err != nil {
		return fmt.Errorf("read the audit (outboxgen schema diff says whether a table is missing): %w", err)
	}
	if err := r.chooseWindow(); err != nil {
		return err
	}
	if err := r.chooseEvents(ctx); err != nil {
		return err
	}
	return r.checkInboxes(ctx)
}

func (r *reconciler) chooseEvents(ctx context.Context) error {
	var names []string
	for _, e := range r.model.Events {
		names = append(names, e.Name.Text)
		if r.Event != "" && r.Event != e.Name.Text {
			continue
		}
		compared := &event{Event: e}
		asked := r.Consumer == ""
		for i, c := range r.model.Consumers {
			if slices.Contains(c.Handles, e) {
				compared.consumers = append(compared.consumers, r.consumers[i])
				asked = asked || r.consumers[i].asked
			}
		}
		if !asked {
			continue
		}
		if e.Source != nil {
			var err error
			if compared.source, err = r.readSource(ctx, e); err != nil {
				return err
			}
		}
		r.events[e.Name.Text] = compared
		r.order = append(r.order, compared)
	}
	if r.Event != "" && !slices.Contains(names, r.Event) {
		return &NotKnownError{What: "event type", Name: r.Event, Have: names}
	}
	if len(r.order) == 0 {
		return &OptionError{fmt.Sprintf("%s does not handle %s", r.Consumer, r.Event), "leave out --event or --consumer"}
	}
	return nil
}

func (r *reconciler) chooseWindow() error {
	w := Window{From: r.From, To: r.To}
	if w.To.IsZero() {
		w.To = r.now.Add(-r.PublishDelay - r.ApplyDelay)
	}
	if w.From.IsZero() {
		w.From = w.To.Add(-24 * time.Hour)
	}
	w.From, w.To = w.From.UTC().Truncate(time.Microsecond), w.To.UTC().Truncate(time.Microsecond) // as columns have it
	switch {
	case !w.From.Before(w.To):
		return &OptionError{"the window ends before it begins", "give --from the earlier time"}
	case !w.From.Before(r.now):
		return &OptionError{"the window is in the future", "it is " + r.now.Format(time.RFC3339) + " by the database's clock"}
	}
	if w.To.After(r.now) {
		w.To = r.now
	}
	r.report.Window = w
	r.known = w
	keep, why := r.model.Outbox.KeepPublished, "published events are deleted after keep_published, "
	if keep == 0 {
		keep, why = r.shortestRetain(), "events are deleted when they are published, and what consumers have of them after retain, "
	}
	if begin := r.now.Add(-keep + margin(keep)); keep > 0 && begin.After(w.From) {
		r.known.From = begin
		for _, c := range []Check{CheckNoEvent, CheckNoSource} {
			r.clip(Clip{Check: c, From: begin, Reason: why + short(keep)})
		}
	}
	if !r.known.From.Before(w.To) {
		return &OptionError{"nothing of this window can be known any more: " + why + short(keep), "reconcile sooner, or keep events longer"}
	}
	for _, c := range r.consumers {
		c.window = w
		if begin := r.now.Add(-c.retain + margin(c.retain)); c.asked && begin.After(w.From) {
			c.window.From = begin
			r.clip(Clip{Check: CheckNotApplied, Consumer: c.name, From: begin, Reason: "its dedup rows are deleted after retain, " + short(c.retain)})
		}
	}
	return nil
}

// margin is what the end of a time is not trusted: clocks differ, and time goes on.
func margin(keep time.Duration) time.Duration { return min(slack, keep/4) }

// short is a duration without the parts that are zero.
func short(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if cut, found := strings.CutSuffix(text, zero); found {
			text = cut + zero[:1]
		}
	}
	return text
}

func (r *reconciler) clip(c Clip) {
	r.report.Clipped = append(r.report.Clipped, c)
	r.Note(fmt.Sprintf("%s is known from %s on only: %s", c.Check, c.From.Format(time.RFC3339), c.Reason))
}

func (r *reconciler) shortestRetain() time.Duration {
	shortest := time.Duration(0)
	for _, c := range r.consumers {
		if shortest == 0 || c.retain < shortest {
			shortest = c.retain
		}
	}
	return shortest
}

// checkInboxes finds consumers whose tables are elsewhere.
func (r *reconciler) checkInboxes(ctx context.Context) error {
	for _, c := range r.consumers {
		var found int
		err := c.db.QueryRowContext(ctx, r.query("SELECT 1 FROM {consumed_event} FORCE INDEX ({uq_:consumed_event_identity}) WHERE consumer_name = ? LIMIT 1"), c.name).Scan(&found)
		switch {
		case errors.Is(err, sql.ErrNoRows) && c.asked:
			r.note("%s has no dedup row at all in this database: if its tables are in another one, name that by --consumer-dsn", c.name)
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return fmt.Errorf("read the dedup rows of %s (are its tables in another database? --consumer-dsn): %w", c.name, err)
		}
	}
	return nil
}
