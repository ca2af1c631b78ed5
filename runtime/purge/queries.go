package purge

import (
	"context"

	"github.com/outboxgen/outboxgen/runtime/internal/leasing"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// EventQueries are the statements that purge events. Generated code adapts those
// that sqlc made; the types below have their fields, in their order, so that a
// plain conversion does.
type EventQueries interface {
	SelectPurgeable(ctx context.Context, db outbox.DBTX, p SelectPurgeableParams) ([]Purgeable, error)
	DeletePublished(ctx context.Context, db outbox.DBTX, p DeletePublishedParams) (int64, error)
	DeleteFailures(ctx context.Context, db outbox.DBTX, p DeleteFailuresParams) error
	SelectOldRelays(ctx context.Context, db outbox.DBTX, p SelectOldRelaysParams) ([]string, error)
	DeleteRelays(ctx context.Context, db outbox.DBTX, p DeleteRelaysParams) (int64, error)
	TaskQueries
}

// DedupQueries are the statements that purge dedup rows.
type DedupQueries interface {
	SelectConsumed(ctx context.Context, db outbox.DBTX, p SelectConsumedParams) ([]Consumed, error)
	DeleteConsumed(ctx context.Context, db outbox.DBTX, p DeleteConsumedParams) (int64, error)
	SelectConsumerFailures(ctx context.Context, db outbox.DBTX, p SelectConsumerFailuresParams) ([]string, error)
	DeleteConsumerFailures(ctx context.Context, db outbox.DBTX, p DeleteConsumerFailuresParams) (int64, error)
	TaskQueries
}

// TaskQueries are the statements by which one of several purgers is elected.
type TaskQueries interface {
	TakeTask(ctx context.Context, db outbox.DBTX, p TakeTaskParams) error
	TaskHolder(ctx context.Context, db outbox.DBTX, p TaskHolderParams) (string, error)
	EndTask(ctx context.Context, db outbox.DBTX, p EndTaskParams) error
}

// The parameters and rows of the queries. Times are in microseconds.
type (
	// SelectPurgeableParams reads published events from a place in the index on.
	SelectPurgeableParams struct {
		KeepUs int64
		Lane   uint16 // where rows are leased, not lanes: unused
		FromUs int64  // of available_at, since 1970
		Limit  int32
	}

	// Purgeable is a published event.
	Purgeable struct {
		EventID     string
		AvailableUs int64 // its place in the index, since 1970
		Purgeable   int64 // 1 when it has been published for long enough
	}

	// DeletePublishedParams deletes those that have been published for long enough.
	DeletePublishedParams struct {
		EventIds []string
		KeepUs   int64
	}

	// DeleteFailuresParams forgets the errors of events.
	DeleteFailuresParams = leasing.DeleteFailuresParams

	// SelectOldRelaysParams reads the relays' runs that ended so long ago.
	SelectOldRelaysParams struct {
		KeepUs int64
		Limit  int32
	}

	// DeleteRelaysParams forgets those that ended so long ago.
	DeleteRelaysParams struct {
		Owners []string
		KeepUs int64
	}

	// SelectConsumedParams reads dedup rows behind one of them.
	SelectConsumedParams struct {
		AfterID int64
		Limit   int32
	}

	// Consumed is a dedup row.
	Consumed struct {
		ID           int64
		ConsumerName string
		AgeUs        int64 // below 0 when the database's clock was set back since
	}

	// DeleteConsumedParams deletes those of a consumer that are so old, and not of
	// parked events.
	DeleteConsumedParams struct {
		Ids          []int64
		ConsumerName string
		RetainUs     int64
	}

	// SelectConsumerFailuresParams reads the events that have last failed at a
	// consumer so long ago.
	SelectConsumerFailuresParams struct {
		ConsumerName string
		RetainUs     int64
		Limit        int32
	}

	// DeleteConsumerFailuresParams forgets those that still have.
	DeleteConsumerFailuresParams struct {
		ConsumerName string
		EventIds     []string
		RetainUs     int64
	}

	// TakeTaskParams makes a holder of a task, unless there is one.
	TakeTaskParams struct {
		Task   string
		Holder string
		HoldUs int64
	}

	// TaskHolderParams asks who holds a task.
	TaskHolderParams struct{ Task string }

	// EndTaskParams gives a task up.
	EndTaskParams struct {
		Task   string
		Holder string
	}
)
