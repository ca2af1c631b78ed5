package outbox

import (
	"context"
	"encoding/json"
)

// Inbox are the statements of a consumer's tables. Generated code adapts those
// that sqlc made; the types below have their fields, in their order, so that a
// plain conversion does. Statements on one row that isn't there return
// sql.ErrNoRows.
type Inbox interface {
	// InsertConsumed writes the dedup row.
	InsertConsumed(ctx context.Context, db DBTX, p InsertConsumedParams) error
	// ForgetConsumed deletes the dedup row that has this outcome, and returns how many there were.
	ForgetConsumed(ctx context.Context, db DBTX, p ForgetConsumedParams) (int64, error)

	// CountFailure adds one to an event's failed attempts, and ReadAttempts returns them.
	CountFailure(ctx context.Context, db DBTX, p CountFailureParams) error
	ReadAttempts(ctx context.Context, db DBTX, p ReadAttemptsParams) (uint32, error)

	// InsertParked writes an event, or an unreadable message, that was given up on, or
	// renews the reason of one that is there.
	InsertParked(ctx context.Context, db DBTX, p InsertParkedParams) error
	// LockParked reads it for a change.
	LockParked(ctx context.Context, db DBTX, p LockParkedParams) (ParkedRow, error)
	// FailParked notes that a redrive of it has failed.
	FailParked(ctx context.Context, db DBTX, p FailParkedParams) error
	DeleteParked(ctx context.Context, db DBTX, p DeleteParkedParams) (int64, error)
	// ListParked returns a consumer's, by id.
	ListParked(ctx context.Context, db DBTX, p ListParkedParams) ([]ParkedRow, error)

	// AddVersion makes the row of an aggregate's last applied version unless it is
	// there, LockVersion reads it for a change, SetVersion changes it.
	AddVersion(ctx context.Context, db DBTX, p AddVersionParams) error
	LockVersion(ctx context.Context, db DBTX, p LockVersionParams) (int64, error)
	SetVersion(ctx context.Context, db DBTX, p SetVersionParams) error

	// SelectRedrive reads the first redrive that is due, if there is one, TakeRedrive keeps it for this
	// process and returns 1 unless another one has it, EndRedrive forgets it.
	SelectRedrive(ctx context.Context, db DBTX, p SelectRedriveParams) ([]RedriveRow, error)
	TakeRedrive(ctx context.Context, db DBTX, p TakeRedriveParams) (int64, error)
	EndRedrive(ctx context.Context, db DBTX, p EndRedriveParams) error
	// RecordOperation writes down what came of it.
	RecordOperation(ctx context.Context, db DBTX, p RecordOperationParams) error
}

// The parameters and rows of the queries. Outcomes are values of [Handling].
type (
	// InsertConsumedParams is a dedup row.
	InsertConsumedParams struct {
		ConsumerName string
		EventID      string
		Outcome      uint8
	}

	// ForgetConsumedParams names a dedup row.
	ForgetConsumedParams struct {
		ConsumerName string
		EventID      string
		Outcome      uint8
	}

	// CountFailureParams is a failed attempt.
	CountFailureParams struct {
		ConsumerName string
		EventID      string
		Reason       string
	}

	// ReadAttemptsParams names an event of a consumer.
	ReadAttemptsParams struct {
		ConsumerName string
		EventID      string
	}

	// InsertParkedParams is an event that was given up on.
	InsertParkedParams struct {
		ConsumerName string
		EventID      string
		EventType    string
		Kind         string
		Reason       string
		Attempts     uint32
		Attributes   json.RawMessage // CloudEvents attributes
		Headers      json.RawMessage // the writer's own; of an unreadable message all that it had
		Body         []byte
	}

	// LockParkedParams names it.
	LockParkedParams struct {
		ConsumerName string
		EventID      string
	}

	// ParkedRow is a row of parked_event, with its time in microseconds since 1970.
	ParkedRow struct {
		ID         int64
		EventID    string
		EventType  string
		Kind       string
		Reason     string
		Attempts   uint32
		Attributes json.RawMessage
		Headers    json.RawMessage
		Body       []byte
		ParkedUs   int64
	}

	// FailParkedParams is why a redrive failed.
	FailParkedParams struct {
		Reason       string
		ConsumerName string
		EventID      string
	}

	// DeleteParkedParams names a parked event.
	DeleteParkedParams struct {
		ConsumerName string
		EventID      string
	}

	// ListParkedParams asks for a consumer's parked events behind an id.
	ListParkedParams struct {
		ConsumerName string
		AfterID      int64
		Limit        int32
	}

	// AddVersionParams names an aggregate of a consumer.
	AddVersionParams struct {
		ConsumerName  string
		AggregateType []byte
		AggregateID   []byte
		Version       int64 // of a new row
	}

	// LockVersionParams names an aggregate of a consumer.
	LockVersionParams struct {
		ConsumerName  string
		AggregateType []byte
		AggregateID   []byte
	}

	// SelectRedriveParams names a consumer.
	SelectRedriveParams struct{ ConsumerName string }

	// RedriveRow is a parked event that is to be handled again.
	RedriveRow struct {
		ID       int64
		EventID  string
		Operator string // who wants it
		Tries    uint32 // begun so far
		Taken    int64  // 1 while a process is at it
	}

	// TakeRedriveParams keeps a redrive for a time, in microseconds.
	TakeRedriveParams struct {
		LeaseUs int64
		ID      int64
	}

	// EndRedriveParams names a redrive.
	EndRedriveParams struct{ ID int64 }

	// RecordOperationParams is what was done to an event, for whom.
	RecordOperationParams struct {
		Operation    string
		Operator     string
		ConsumerName string
		EventID      string
		Detail       string
	}

	// SetVersionParams is the version last applied.
	SetVersionParams struct {
		Version       int64
		ConsumerName  string
		AggregateType []byte
		AggregateID   []byte
	}
)
