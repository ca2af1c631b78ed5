package purge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const (
	dedupTask = "purge-dedup"

	// dedupAgain is how often the whole table is looked through, at most: for rows
	// that were committed long after they were written, or by a clock that was wrong.
	dedupAgain = 24 * time.Hour
)

// NewDedup returns a purger of the dedup rows of consumers, and of their counts of
// failed attempts. retain says for how long each consumer's rows are kept: for at least
// so long, by the database's clock, an event that is delivered again is refused. Rows
// of other consumers are never deleted, nor those of parked events: these go when the
// event is redriven.
func NewDedup(db *outbox.DB, q DedupQueries, retain map[string]time.Duration, cfg *Config) (*Purger, error) {
	for consumer, d := range retain {
		if d <= 0 {
			return nil, fmt.Errorf("purge: the time to retain rows of consumer %q is not positive", consumer)
		}
	}
	p, err := newPurger(db, q, dedupTask, cfg)
	if err != nil {
		return nil, err
	}
	retain = maps.Clone(retain)
	p.newWork = func() work {
		return &dedup{
			queries: q, batch: p.cfg.BatchSize, cursors: newCursors(retain), again: again{every: dedupAgain},
			failures: newFailures(q, p.cfg.BatchSize, retain),
		}
	}
	return p, nil
}

// dedup is the work on dedup rows. They lie in the order in which they were
// written, those of all consumers mixed, and how old they must be differs. A
// cursor a length of time goes through them: it stops where rows are younger, and
// goes on from there at the next pass, so that each row is read once by each.
// Cursors that are at one place share a read, as all of them do at first.
type dedup struct {
	queries DedupQueries
	batch   int
	cursors []cursor
	again   again

	failures []failures
}

// cursor is how far rows have been looked through for the consumers that keep
// theirs for the same time.
type cursor struct {
	retainUs  int64
	consumers map[string]bool
	after     int64 // the last row that needs no further look
	done      bool  // for this pass
}

func newCursors(retain map[string]time.Duration) []cursor {
	var cursors []cursor
	for consumer, d := range retain {
		i := slices.IndexFunc(cursors, func(c cursor) bool { return c.retainUs == micros(d) })
		if i < 0 {
			i = len(cursors)
			cursors = append(cursors, cursor{retainUs: micros(d), consumers: map[string]bool{}})
		}
		cursors[i].consumers[consumer] = true
	}
	return cursors
}

func (d *dedup) purge(ctx context.Context, p *pass) error {
	if err := d.purgeConsumed(ctx, p); err != nil {
		return err
	}
	for _, f := range d.failures {
		if err := f.purge(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (d *dedup) purgeConsumed(ctx context.Context, p *pass) error {
	fromStart := d.again.due()
	for i := range d.cursors {
		d.cursors[i].done = false
		if fromStart {
			d.cursors[i].after = 0
		}
	}
	if fromStart {
		d.again.begin()
	}
	for {
		after, more := d.lowest()
		if !more {
			return nil
		}
		if err := p.next(ctx); err != nil {
			return err
		}
		begun := time.Now()
		rows, err := d.queries.SelectConsumed(p.grace, p.db, SelectConsumedParams{AfterID: after, Limit: int32(d.batch)})
		if err != nil {
			return fmt.Errorf("select dedup rows: %w", err)
		}
		took := time.Since(begun)
		n, err := d.purgeRows(p, rows)
		if err != nil {
			return err
		}
		if fromStart && n == 0 {
			d.again.spend(took)
		}
	}
}

// lowest is the place of the cursor that is furthest behind.
func (d *dedup) lowest() (after int64, more bool) {
	for _, c := range d.cursors {
		if !c.done && (!more || c.after < after) {
			after, more = c.after, true
		}
	}
	return after, more
}

// purgeRows deletes those of the rows that are old and moves the cursors.
func (d *dedup) purgeRows(p *pass, rows []Consumed) (deleted int64, err error) {
	moved := slices.Clone(d.cursors)
	var old []DeleteConsumedParams
	for i := range moved {
		old = append(old, moved[i].look(rows, len(rows) < d.batch)...)
	}
	if len(old) > 0 {
		done, err := p.inTx(func(tx *outbox.Tx) error {
			deleted, err = d.delete(p.grace, tx, old)
			return err
		})
		if err != nil {
			return 0, fmt.Errorf("delete dedup rows: %w", err)
		}
		if !done {
			// What was to move stays for this pass: going on without these rows would
			// leave them to the next look from the start.
			for i := range moved {
				d.cursors[i].done = moved[i].done || moved[i].after != d.cursors[i].after
			}
			return 0, nil
		}
		p.add(Purged{Consumed: deleted})
	}
	d.cursors = moved
	return deleted, nil
}

func (d *dedup) delete(ctx context.Context, tx *outbox.Tx, old []DeleteConsumedParams) (deleted int64, err error) {
	// In an order that all purgers share, so that no two wait for each other.
	slices.SortFunc(old, func(a, b DeleteConsumedParams) int { return strings.Compare(a.ConsumerName, b.ConsumerName) })
	for _, params := range old {
		n, err := d.queries.DeleteConsumed(ctx, tx, params)
		if err != nil {
			return 0, err
		}
		deleted += n
	}
	return deleted, nil
}

// look moves the cursor behind the rows that need no further look and returns those
// that are to be deleted. atEnd says that no rows follow.
func (c *cursor) look(rows []Consumed, atEnd bool) []DeleteConsumedParams {
	if c.done {
		return nil
	}
	old := map[string][]int64{}
	for _, row := range rows {
		if row.ID <= c.after {
			continue
		}
		// A row of the future was written by a clock that was wrong: to wait for it
		// could mean to wait for years.
		if row.AgeUs >= 0 && row.AgeUs <= c.retainUs {
			c.done = true
			break
		}
		c.after = row.ID
		if row.AgeUs > c.retainUs && c.consumers[row.ConsumerName] {
			old[row.ConsumerName] = append(old[row.ConsumerName], row.ID)
		}
	}
	c.done = c.done || atEnd
	var params []DeleteConsumedParams
	for consumer, ids := range old {
		params = append(params, DeleteConsumedParams{Ids: ids, ConsumerName: consumer, RetainUs: c.retainUs})
	}
	return params
}
