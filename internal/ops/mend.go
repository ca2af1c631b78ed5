package ops

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// The states of a row of outbox_event, as its status has them.
const (
	statusPending   = 0
	statusPublished = 2
	statusDead      = 3
	statusDiscarded = 4
)

// Operations, as outbox_audit has them.
const (
	opPause         = "pause"
	opResume        = "resume"
	opDeadRedrive   = "dead.redrive"
	opDeadDiscard   = "dead.discard"
	opParkedRedrive = "parked.redrive"
	opParkedForce   = "parked.force"
	opParkedDiscard = "parked.discard"
	opPurge         = "purge"

	opRepublishEvent    = "republish.event"
	opRepublishDelivery = "republish.delivery"
)

// The widths of outbox_audit's columns, in characters.
const (
	maxOperator = 255
	maxDetail   = 1024
)

// mendBatch is how many events one transaction changes at most.
const mendBatch = 100

// Result is what became of an event that somebody wanted to be changed.
type Result struct {
	EventID  uuid.UUID `json:"event_id"`
	Consumer string    `json:"consumer,omitempty"`
	Done     bool      `json:"done"`
	Note     string    `json:"note,omitempty"` // why not, or what else there is to know
}

// Pace spreads changes out.
type Pace struct {
	PerSecond int // 0 for no limit

	// Progress is called after each batch; it may be nil.
	Progress func(done, total int)
}

// interval is the time between two events.
func (p Pace) interval() time.Duration {
	if p.PerSecond <= 0 {
		return 0
	}
	return time.Second / time.Duration(p.PerSecond)
}

// size is how many events may be changed together: a tenth of a second's at most.
func (p Pace) size() int {
	if p.PerSecond <= 0 {
		return mendBatch
	}
	return min(mendBatch, max(1, p.PerSecond/10))
}

// inBatches hands out ids, as fast as the pace allows. An error ends it, with the results so far.
func (p Pace) inBatches(ctx context.Context, ids []uuid.UUID, do func([]uuid.UUID) ([]Result, error)) ([]Result, error) {
	var out []Result
	for begin := 0; begin < len(ids); {
		batch := ids[begin:min(begin+p.size(), len(ids))]
		results, err := do(batch)
		out = append(out, results...)
		if err != nil {
			return out, err
		}
		begin += len(batch)
		if p.Progress != nil {
			p.Progress(begin, len(ids))
		}
		if begin < len(ids) && !wait(ctx, time.Duration(len(batch))*p.interval()) {
			return out, ctx.Err()
		}
	}
	return out, nil
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// UnknownError says that nobody knows whether the database carried out the last changes.
type UnknownError struct{ Cause error }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("the reply to COMMIT was lost: the last changes may have been made, or not: %v", e.Cause)
}

func (e *UnknownError) Unwrap() error { return e.Cause }

// change runs a transaction of people's changes, and again when the server ended it for a
// deadlock.
func change(ctx context.Context, db *outbox.DB, fn func(*outbox.Tx) error) error {
	const tries = 5
	for n := 1; ; n++ {
		outcome, err := outbox.InTxWith(ctx, db, &sql.TxOptions{Isolation: sql.LevelReadCommitted}, fn)
		switch {
		case err == nil:
			return nil
		case outcome == outbox.Unknown:
			return &UnknownError{err}
		case n == tries || db.Classify(err).Fault != outbox.FaultDeadlock:
			return err
		}
	}
}

// record is one row of the audit.
type record struct {
	operation string
	consumer  string
	eventID   string
	detail    string
}

// write writes rows of the audit, in the transaction of what they tell of.
func (s *Service) write(ctx context.Context, tx *outbox.Tx, records ...record) error {
	if len(records) == 0 {
		return nil
	}
	values := strings.TrimSuffix(strings.Repeat("("+now+", ?, ?, ?, ?, ?), ", len(records)), ", ")
	args := make([]any, 0, 5*len(records))
	for _, r := range records {
		args = append(args, r.operation, cut(s.operator, maxOperator), r.consumer, r.eventID, cut(r.detail, maxDetail))
	}
	_, err := tx.ExecContext(ctx, s.query("INSERT INTO {outbox_audit} (happened_at, operation, operator, consumer_name, event_id, detail) VALUES ")+values, args...)
	if err != nil {
		return fmt.Errorf("write the audit: %w", err)
	}
	return nil
}

func cut(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// in is the placeholders of a list, and its values.
func in[T any](list []T) (placeholders string, args []any) {
	args = make([]any, len(list))
	for i, v := range list {
		args[i] = v
	}
	return strings.TrimSuffix(strings.Repeat("?, ", len(list)), ", "), args
}

func texts(ids []uuid.UUID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id.String()
	}
	return out
}

// each hands the rows of a query to a function that scans one.
func each(ctx context.Context, db outbox.DBTX, query string, args []any, row func(*sql.Rows) error) (err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
