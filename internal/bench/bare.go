package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// bareLoop runs a relay's statements of claim and mark one after the other on one
// connection, with nothing around them, and returns how many events it marked.
type bareLoop struct {
	db    *sql.DB
	kind  *kind
	s     *statements
	batch int
}

var readCommitted = &sql.TxOptions{Isolation: sql.LevelReadCommitted}

// lease is the loop of the kind's relay.
func (l bareLoop) lease(ctx context.Context) (events int, err error) {
	if l.kind.byLane {
		return l.leaseLanes(ctx)
	}
	return l.leaseRows(ctx)
}

// leaseRows is the loop of `ordering: none`.
func (l bareLoop) leaseRows(ctx context.Context) (events int, err error) {
	for token := 1; ; token++ {
		ids, err := l.claimRows(ctx, token)
		if err != nil || len(ids) == 0 {
			return events, err
		}
		err = l.inTx(ctx, func(tx *sql.Tx) error {
			return execAll(ctx, tx, l.s.markPublished.with(len(ids)), append(ids, "bare", token), len(ids))
		})
		if err != nil {
			return events, err
		}
		events += len(ids)
	}
}

func (l bareLoop) claimRows(ctx context.Context, token int) (ids []any, err error) {
	us := (30 * time.Second).Microseconds()
	err = l.inTx(ctx, func(tx *sql.Tx) error {
		ids, _, err = selectIDs(ctx, tx, 10, string(l.s.selectDueEvents), l.batch)
		if err != nil || len(ids) == 0 {
			return err
		}
		return execAll(ctx, tx, l.s.leaseEvents.with(len(ids)), append([]any{"bare", token, us, us}, ids...), len(ids))
	})
	return ids, err
}

// lanesPerRead is the relay's: so many lanes are read by one statement.
const (
	laneCount    = 64
	lanesPerRead = 16
)

// leaseLanes is the loop of `ordering: aggregate`.
func (l bareLoop) leaseLanes(ctx context.Context) (events int, err error) {
	for first := 0; first < laneCount; {
		args := make([]any, 0, lanesPerRead+1)
		for lane := first; lane < first+lanesPerRead; lane++ {
			args = append(args, lane)
		}
		ids, inLanes, err := selectIDs(ctx, l.db, 13, l.s.selectLaneEvents.with(lanesPerRead), append(args, l.batch)...)
		if err != nil {
			return events, err
		}
		if len(ids) == 0 {
			first += lanesPerRead
			continue
		}
		err = l.inTx(ctx, func(tx *sql.Tx) error {
			if err := lockLanes(ctx, tx, l.s.lockLanes, inLanes); err != nil {
				return err
			}
			return execAll(ctx, tx, l.s.markPublished.with(len(ids)), ids, len(ids))
		})
		if err != nil {
			return events, err
		}
		events += len(ids)
	}
	return events, nil
}

func lockLanes(ctx context.Context, tx *sql.Tx, lock statement, lanes []any) error {
	rows, err := tx.QueryContext(ctx, lock.with(len(lanes)), lanes...)
	if err != nil {
		return err
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		n++
	}
	if n != len(lanes) {
		return fmt.Errorf("%d lanes of %d were locked", n, len(lanes))
	}
	return rows.Err()
}

func (l bareLoop) inTx(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, err := l.db.BeginTx(ctx, readCommitted)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func execAll(ctx context.Context, tx *sql.Tx, query string, args []any, want int) error {
	result, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != int64(want) {
		return fmt.Errorf("%d rows of %d were changed (%w)", n, want, err)
	}
	return nil
}

// laneColumn is where SelectLaneEvents has the lane.
const laneColumn = 10

// selectIDs reads rows whole and returns their ids, and in which lanes they are
// when there is such a column.
func selectIDs(ctx context.Context, db outbox.DBTX, columns int, query string, args ...any) (ids, lanes []any, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	var (
		id    string
		raw   = make([]sql.RawBytes, columns)
		dest  = make([]any, columns)
		known = map[string]bool{}
	)
	dest[0] = &id
	for i := 1; i < columns; i++ {
		dest[i] = &raw[i]
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return nil, nil, err
		}
		ids = append(ids, id)
		if columns > laneColumn && !known[string(raw[laneColumn])] {
			known[string(raw[laneColumn])] = true
			lanes = append(lanes, string(raw[laneColumn]))
		}
	}
	return ids, lanes, rows.Err()
}
