package ops

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"time"

	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/purge"
)

// PurgeOptions say what one pass of the purgers deletes.
type PurgeOptions struct {
	Events bool // published events older than keep_published, and the rows of old relays
	Dedup  bool // dedup rows older than their consumer's retain, and counts of failed attempts

	// Discarded, when it is above zero, deletes discarded events that are older.
	Discarded time.Duration
	// Audit, when it is above zero, deletes rows of the audit that are older.
	Audit time.Duration

	Pause time.Duration // after each batch, for others. Default none
}

// Purged is what a purge has deleted.
type Purged struct {
	Events    int64 `json:"events"`    // published events
	Relays    int64 `json:"relays"`    // rows of relays' runs
	Consumed  int64 `json:"consumed"`  // dedup rows, in all databases
	Failures  int64 `json:"failures"`  // counts of failed attempts
	Deferred  int64 `json:"deferred"`  // batches that met a lock: another pass deletes them
	Discarded int64 `json:"discarded"` // discarded events
	Audit     int64 `json:"audit"`

	// Elsewhere says that a purger of the service was at work, which this one left it to.
	Elsewhere bool `json:"elsewhere"`
}

func (p *Purged) add(pass purge.Pass) {
	p.Events += pass.Events
	p.Relays += pass.Relays
	p.Consumed += pass.Consumed
	p.Failures += pass.Failed
	p.Deferred += pass.Deferred
	p.Elsewhere = p.Elsewhere || !pass.Elected
}

// Purge makes one pass of the purgers with the settings of events.yaml, as the service's own
// purgers do: in small batches by primary key, and no row before its time.
func (s *Service) Purge(ctx context.Context, opts PurgeOptions) (Purged, error) {
	var out Purged
	q, err := s.purgeQueries()
	if err != nil {
		return out, err
	}
	cfg := &purge.Config{Pause: opts.Pause, Logger: slog.New(slog.DiscardHandler)}
	if opts.Events {
		lanes := 0
		if s.lanes() {
			lanes = spec.LaneCount
		}
		purger, err := purge.NewEvents(s.outbox, q, s.model.Outbox.KeepPublished, lanes, cfg)
		if err != nil {
			return out, err
		}
		pass, err := purger.Purge(ctx)
		out.add(pass)
		if err != nil {
			return out, fmt.Errorf("purge events: %w", err)
		}
	}
	if opts.Dedup {
		for _, db := range s.databases() {
			pass, err := s.purgeDedup(ctx, db, q, cfg)
			out.add(pass)
			if err != nil {
				return out, fmt.Errorf("purge dedup rows: %w", err)
			}
		}
	}
	if opts.Discarded > 0 {
		if out.Discarded, err = s.purgeDiscarded(ctx, opts.Discarded); err != nil {
			return out, fmt.Errorf("purge discarded events: %w", err)
		}
	}
	if opts.Audit > 0 {
		for _, db := range s.databases() {
			n, err := s.purgeAudit(ctx, db, opts.Audit)
			out.Audit += n
			if err != nil {
				return out, fmt.Errorf("purge the audit: %w", err)
			}
		}
	}
	return out, nil
}

// purgeDedup makes a pass over the dedup rows of the consumers of a database.
func (s *Service) purgeDedup(ctx context.Context, db *outbox.DB, q purgeQueries, cfg *purge.Config) (purge.Pass, error) {
	retain := map[string]time.Duration{}
	for _, c := range s.model.Consumers {
		if s.inbox(c.Name.Text) == db {
			retain[c.Name.Text] = c.Retain
		}
	}
	if len(retain) == 0 {
		return purge.Pass{Elected: true}, nil
	}
	purger, err := purge.NewDedup(db, q, retain, cfg)
	if err != nil {
		return purge.Pass{}, err
	}
	return purger.Purge(ctx)
}

// purgeDiscarded deletes discarded events that were written long ago, and what is kept of
// their errors.
func (s *Service) purgeDiscarded(ctx context.Context, older time.Duration) (deleted int64, err error) {
	for {
		var ids []string
		err := s.ids(ctx, "SELECT event_id FROM {outbox_event} FORCE INDEX ({ix_:outbox_event_claim}) WHERE status = 4 AND created_at < "+now+" - INTERVAL ? MICROSECOND LIMIT 500", []any{older.Microseconds()}, &ids)
		if err != nil || len(ids) == 0 {
			return deleted, err
		}
		places, args := in(ids)
		n := int64(0)
		err = change(ctx, s.outbox, func(tx *outbox.Tx) error {
			done, err := tx.ExecContext(ctx, s.query("DELETE e FROM {outbox_event} AS e FORCE INDEX (PRIMARY) WHERE e.event_id IN ("+places+") AND e.status = 4"), args...)
			if err != nil {
				return err
			}
			if n, err = done.RowsAffected(); err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, s.query("DELETE FROM {outbox_failure} WHERE event_id IN ("+places+")"), args...)
			return err
		})
		if err != nil {
			return deleted, err
		}
		deleted += n
	}
}

// purgeAudit deletes the oldest rows of the audit, up to an age.
func (s *Service) purgeAudit(ctx context.Context, db *outbox.DB, older time.Duration) (deleted int64, err error) {
	for {
		n := int64(0)
		err := change(ctx, db, func(tx *outbox.Tx) error {
			done, err := tx.ExecContext(ctx, s.query("DELETE FROM {outbox_audit} WHERE happened_at < "+now+" - INTERVAL ? MICROSECOND ORDER BY id LIMIT 500"), older.Microseconds())
			if err == nil {
				n, err = done.RowsAffected()
			}
			return err
		})
		deleted += n
		if err != nil || n == 0 {
			return deleted, err
		}
	}
}

// purgeQueries are the service's own statements for its purgers.
type purgeQueries map[string]sqlgen.Statement

func (s *Service) purgeQueries() (purgeQueries, error) {
	all, problems := sqlgen.Statements(s.model)
	if len(problems) > 0 {
		return nil, problems
	}
	q := purgeQueries{}
	for _, statement := range all {
		q[statement.Name] = statement
	}
	return q, nil
}

var (
	_ purge.EventQueries = purgeQueries(nil)
	_ purge.DedupQueries = purgeQueries(nil)
)

type named = map[string]any

// rows runs a statement and hands its rows to a function that scans one.
func (q purgeQueries) rows(ctx context.Context, db outbox.DBTX, name string, values named, limit int32, row func(*sql.Rows) error) error {
	query, args := q[name].Bind(values, limit)
	return each(ctx, db, query, args, row)
}

// exec runs a statement that changes rows, and returns how many.
func (q purgeQueries) exec(ctx context.Context, db outbox.DBTX, name string, values named) (int64, error) {
	query, args := q[name].Bind(values, 0)
	done, err := db.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

func (q purgeQueries) SelectPurgeable(ctx context.Context, db outbox.DBTX, p purge.SelectPurgeableParams) (out []purge.Purgeable, err error) {
	err = q.rows(ctx, db, "SelectPurgeable", named{"keep_us": p.KeepUs, "lane": p.Lane, "from_us": p.FromUs}, p.Limit, func(rows *sql.Rows) error {
		var r purge.Purgeable
		err := rows.Scan(&r.EventID, &r.AvailableUs, &r.Purgeable)
		out = append(out, r)
		return err
	})
	return out, err
}

func (q purgeQueries) DeletePublished(ctx context.Context, db outbox.DBTX, p purge.DeletePublishedParams) (int64, error) {
	return q.exec(ctx, db, "DeletePublished", named{"event_ids": p.EventIds, "keep_us": p.KeepUs})
}

func (q purgeQueries) DeleteFailures(ctx context.Context, db outbox.DBTX, p purge.DeleteFailuresParams) error {
	_, err := q.exec(ctx, db, "DeleteFailures", named{"event_ids": p.EventIds})
	return err
}

// texts reads a column of text.
func (q purgeQueries) texts(ctx context.Context, db outbox.DBTX, name string, values named, limit int32) (out []string, err error) {
	err = q.rows(ctx, db, name, values, limit, func(rows *sql.Rows) error {
		var text string
		err := rows.Scan(&text)
		out = append(out, text)
		return err
	})
	return out, err
}

func (q purgeQueries) SelectOldRelays(ctx context.Context, db outbox.DBTX, p purge.SelectOldRelaysParams) ([]string, error) {
	return q.texts(ctx, db, "SelectOldRelays", named{"keep_us": p.KeepUs}, p.Limit)
}

func (q purgeQueries) DeleteRelays(ctx context.Context, db outbox.DBTX, p purge.DeleteRelaysParams) (int64, error) {
	return q.exec(ctx, db, "DeleteRelays", named{"owners": p.Owners, "keep_us": p.KeepUs})
}

func (q purgeQueries) SelectConsumed(ctx context.Context, db outbox.DBTX, p purge.SelectConsumedParams) (out []purge.Consumed, err error) {
	err = q.rows(ctx, db, "SelectConsumed", named{"after_id": p.AfterID}, p.Limit, func(rows *sql.Rows) error {
		var r purge.Consumed
		err := rows.Scan(&r.ID, &r.ConsumerName, &r.AgeUs)
		out = append(out, r)
		return err
	})
	return out, err
}

func (q purgeQueries) DeleteConsumed(ctx context.Context, db outbox.DBTX, p purge.DeleteConsumedParams) (int64, error) {
	return q.exec(ctx, db, "DeleteConsumed", named{"ids": p.Ids, "consumer_name": p.ConsumerName, "retain_us": p.RetainUs})
}

func (q purgeQueries) SelectConsumerFailures(ctx context.Context, db outbox.DBTX, p purge.SelectConsumerFailuresParams) ([]string, error) {
	return q.texts(ctx, db, "SelectConsumerFailures", named{"consumer_name": p.ConsumerName, "retain_us": p.RetainUs}, p.Limit)
}

func (q purgeQueries) DeleteConsumerFailures(ctx context.Context, db outbox.DBTX, p purge.DeleteConsumerFailuresParams) (int64, error) {
	return q.exec(ctx, db, "DeleteConsumerFailures", named{"consumer_name": p.ConsumerName, "event_ids": p.EventIds, "retain_us": p.RetainUs})
}

func (q purgeQueries) TakeTask(ctx context.Context, db outbox.DBTX, p purge.TakeTaskParams) error {
	_, err := q.exec(ctx, db, "TakeTask", named{"task": p.Task, "holder": p.Holder, "hold_us": p.HoldUs})
	return err
}

func (q purgeQueries) TaskHolder(ctx context.Context, db outbox.DBTX, p purge.TaskHolderParams) (string, error) {
	out, err := q.texts(ctx, db, "TaskHolder", named{"task": p.Task}, 0)
	if err == nil && len(out) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return "", err
	}
	return out[0], nil
}

func (q purgeQueries) EndTask(ctx context.Context, db outbox.DBTX, p purge.EndTaskParams) error {
	_, err := q.exec(ctx, db, "EndTask", named{"task": p.Task, "holder": p.Holder})
	return err
}
