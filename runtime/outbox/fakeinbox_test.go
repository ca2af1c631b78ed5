package outbox_test

import (
	"context"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// fakeInbox sends a word for each statement, for the fake database to record or to
// fail. An event has failed once.
type fakeInbox struct{}

var _ outbox.Inbox = fakeInbox{}

func word(ctx context.Context, db outbox.DBTX, statement string) error {
	_, err := db.ExecContext(ctx, statement)
	return err
}

func (fakeInbox) InsertConsumed(ctx context.Context, db outbox.DBTX, _ outbox.InsertConsumedParams) error {
	return word(ctx, db, "INSERT dedup")
}

func (fakeInbox) ForgetConsumed(ctx context.Context, db outbox.DBTX, _ outbox.ForgetConsumedParams) (int64, error) {
	return 1, word(ctx, db, "DELETE dedup")
}

func (fakeInbox) CountFailure(ctx context.Context, db outbox.DBTX, _ outbox.CountFailureParams) error {
	return word(ctx, db, "COUNT failure")
}

func (fakeInbox) ReadAttempts(ctx context.Context, db outbox.DBTX, _ outbox.ReadAttemptsParams) (uint32, error) {
	return 1, word(ctx, db, "READ attempts")
}

func (fakeInbox) InsertParked(ctx context.Context, db outbox.DBTX, _ outbox.InsertParkedParams) error {
	return word(ctx, db, "INSERT parked")
}

func (fakeInbox) LockParked(ctx context.Context, db outbox.DBTX, _ outbox.LockParkedParams) (outbox.ParkedRow, error) {
	return outbox.ParkedRow{}, word(ctx, db, "LOCK parked")
}

func (fakeInbox) FailParked(ctx context.Context, db outbox.DBTX, _ outbox.FailParkedParams) error {
	return word(ctx, db, "FAIL parked")
}

func (fakeInbox) DeleteParked(ctx context.Context, db outbox.DBTX, _ outbox.DeleteParkedParams) (int64, error) {
	return 1, word(ctx, db, "DELETE parked")
}

func (fakeInbox) ListParked(ctx context.Context, db outbox.DBTX, _ outbox.ListParkedParams) ([]outbox.ParkedRow, error) {
	return nil, word(ctx, db, "LIST parked")
}

func (fakeInbox) AddVersion(ctx context.Context, db outbox.DBTX, _ outbox.AddVersionParams) error {
	return word(ctx, db, "ADD version")
}

func (fakeInbox) LockVersion(ctx context.Context, db outbox.DBTX, _ outbox.LockVersionParams) (int64, error) {
	return 3, word(ctx, db, "LOCK version")
}

func (fakeInbox) SetVersion(ctx context.Context, db outbox.DBTX, _ outbox.SetVersionParams) error {
	return word(ctx, db, "SET version")
}
