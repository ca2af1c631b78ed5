package outbox_test

import (
	"context"
	"database/sql"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// fakeInbox sends a word for each statement, for the fake database to record or to
// fail, and keeps what succeeded. Transactions are the integration tests' affair.
type fakeInbox struct {
	before func(ctx context.Context, statement string) error // may fail, or take its time

	attempts   uint32 // of every event
	reasons    []string
	dedup      []outbox.InsertConsumedParams
	parked     []outbox.InsertParkedParams
	refuse     func(outbox.InsertParkedParams) error // of a row to park; may be nil
	row        *outbox.ParkedRow                     // what there is to redrive
	failed     []outbox.FailParkedParams
	redrive    *outbox.RedriveRow // what people asked for
	operations []outbox.RecordOperationParams
	version    int64
	versions   []outbox.SetVersionParams
}

var _ outbox.Inbox = (*fakeInbox)(nil)

func (f *fakeInbox) word(ctx context.Context, db outbox.DBTX, statement string) error {
	if f.before != nil {
		if err := f.before(ctx, statement); err != nil {
			return err
		}
	}
	_, err := db.ExecContext(ctx, statement)
	return err
}

func (f *fakeInbox) InsertConsumed(ctx context.Context, db outbox.DBTX, p outbox.InsertConsumedParams) error {
	err := f.word(ctx, db, "INSERT dedup")
	if err == nil {
		f.dedup = append(f.dedup, p)
	}
	return err
}

func (f *fakeInbox) ForgetConsumed(ctx context.Context, db outbox.DBTX, _ outbox.ForgetConsumedParams) (int64, error) {
	return 1, f.word(ctx, db, "DELETE dedup")
}

func (f *fakeInbox) CountFailure(ctx context.Context, db outbox.DBTX, p outbox.CountFailureParams) error {
	err := f.word(ctx, db, "COUNT failure")
	if err == nil {
		f.attempts++
		f.reasons = append(f.reasons, p.Reason)
	}
	return err
}

func (f *fakeInbox) ReadAttempts(ctx context.Context, db outbox.DBTX, _ outbox.ReadAttemptsParams) (uint32, error) {
	if err := f.word(ctx, db, "READ attempts"); err != nil {
		return 0, err
	}
	if f.attempts == 0 {
		return 0, sql.ErrNoRows
	}
	return f.attempts, nil
}

func (f *fakeInbox) InsertParked(ctx context.Context, db outbox.DBTX, p outbox.InsertParkedParams) error {
	err := f.word(ctx, db, "INSERT parked")
	if err == nil && f.refuse != nil {
		err = f.refuse(p)
	}
	if err == nil {
		f.parked = append(f.parked, p)
	}
	return err
}

func (f *fakeInbox) LockParked(ctx context.Context, db outbox.DBTX, _ outbox.LockParkedParams) (outbox.ParkedRow, error) {
	if err := f.word(ctx, db, "SELECT parked"); err != nil {
		return outbox.ParkedRow{}, err
	}
	if f.row == nil {
		return outbox.ParkedRow{}, sql.ErrNoRows
	}
	return *f.row, nil
}

func (f *fakeInbox) FailParked(ctx context.Context, db outbox.DBTX, p outbox.FailParkedParams) error {
	err := f.word(ctx, db, "FAIL parked")
	if err == nil {
		f.failed = append(f.failed, p)
	}
	return err
}

func (f *fakeInbox) DeleteParked(ctx context.Context, db outbox.DBTX, _ outbox.DeleteParkedParams) (int64, error) {
	return 1, f.word(ctx, db, "DELETE parked")
}

func (f *fakeInbox) ListParked(ctx context.Context, db outbox.DBTX, _ outbox.ListParkedParams) ([]outbox.ParkedRow, error) {
	err := f.word(ctx, db, "LIST parked")
	if err != nil || f.row == nil {
		return nil, err
	}
	return []outbox.ParkedRow{*f.row}, nil
}

func (f *fakeInbox) AddVersion(ctx context.Context, db outbox.DBTX, _ outbox.AddVersionParams) error {
	return f.word(ctx, db, "ADD version")
}

func (f *fakeInbox) LockVersion(ctx context.Context, db outbox.DBTX, _ outbox.LockVersionParams) (int64, error) {
	return f.version, f.word(ctx, db, "SELECT version")
}

func (f *fakeInbox) SetVersion(ctx context.Context, db outbox.DBTX, p outbox.SetVersionParams) error {
	err := f.word(ctx, db, "SET version")
	if err == nil {
		f.version = p.Version
		f.versions = append(f.versions, p)
	}
	return err
}

// parkedRow is what the database would hold of the last parked event.
func (f *fakeInbox) parkedRow() outbox.ParkedRow {
	p := f.parked[len(f.parked)-1]
	return outbox.ParkedRow{
		ID: int64(len(f.parked)), EventID: p.EventID, EventType: p.EventType, Kind: p.Kind, Reason: p.Reason,
		Attempts: p.Attempts, Attributes: p.Attributes, Headers: p.Headers, Body: p.Body, ParkedUs: 1_700_000_000_000_000,
	}
}

func (f *fakeInbox) SelectRedrive(ctx context.Context, db outbox.DBTX, _ outbox.SelectRedriveParams) ([]outbox.RedriveRow, error) {
	err := f.word(ctx, db, "SELECT redrive")
	if err != nil || f.redrive == nil {
		return nil, err
	}
	return []outbox.RedriveRow{*f.redrive}, nil
}

func (f *fakeInbox) TakeRedrive(ctx context.Context, db outbox.DBTX, _ outbox.TakeRedriveParams) (int64, error) {
	return 1, f.word(ctx, db, "TAKE redrive")
}

func (f *fakeInbox) EndRedrive(ctx context.Context, db outbox.DBTX, _ outbox.EndRedriveParams) error {
	err := f.word(ctx, db, "END redrive")
	if err == nil {
		f.redrive = nil
	}
	return err
}

func (f *fakeInbox) RecordOperation(ctx context.Context, db outbox.DBTX, p outbox.RecordOperationParams) error {
	err := f.word(ctx, db, "RECORD operation")
	if err == nil {
		f.operations = append(f.operations, p)
	}
	return err
}
