// Package rowlease is the outbox.Store of `ordering: none`: a relay leases the
// rows it claims, one by one, so that any relay can publish any event.
package rowlease

import (
	"context"

	"github.com/outboxgen/outboxgen/runtime/internal/leasing"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Queries are the statements that the store runs. Generated code adapts those
// that sqlc made; the types below have their fields, in their order, so that a
// plain conversion does.
type Queries interface {
	SelectDueEvents(ctx context.Context, db outbox.DBTX, p SelectDueEventsParams) ([]DueEvent, error)
	LeaseEvents(ctx context.Context, db outbox.DBTX, p LeaseEventsParams) (int64, error)
	MarkPublished(ctx context.Context, db outbox.DBTX, p MarkPublishedParams) (int64, error)
	SelectUnmarked(ctx context.Context, db outbox.DBTX, p SelectUnmarkedParams) ([]string, error)
	ReleaseEvents(ctx context.Context, db outbox.DBTX, p ReleaseEventsParams) (int64, error)
	RetryEvent(ctx context.Context, db outbox.DBTX, p RetryEventParams) (int64, error)
	BuryEvent(ctx context.Context, db outbox.DBTX, p BuryEventParams) (int64, error)
	RenewLeases(ctx context.Context, db outbox.DBTX, p RenewLeasesParams) (int64, error)
	leasing.Queries
}

// The parameters and rows of the queries. Times are in microseconds.
type (
	// SelectDueEventsParams limits a claim.
	SelectDueEventsParams struct{ Limit int32 }

	// DueEvent is a row to be claimed.
	DueEvent = leasing.Row

	// LeaseEventsParams leases rows that the transaction has locked.
	LeaseEventsParams struct {
		Owner    string
		Token    int64
		LeaseUs  int64
		EventIds []string
	}

	// MarkPublishedParams marks rows under a lease.
	MarkPublishedParams struct {
		EventIds []string
		Owner    string
		Token    int64
	}

	// SelectUnmarkedParams asks which rows a lease has not marked.
	SelectUnmarkedParams struct {
		EventIds []string
		Owner    string
		Token    int64
	}

	// ReleaseEventsParams gives rows under a lease back.
	ReleaseEventsParams struct {
		DelayUs  int64
		EventIds []string
		Owner    string
		Token    int64
	}

	// RetryEventParams counts a failed attempt of a row under a lease.
	RetryEventParams struct {
		BackoffUs int64
		EventID   string
		Owner     string
		Token     int64
	}

	// BuryEventParams makes a row under a lease dead.
	BuryEventParams struct {
		EventID string
		Owner   string
		Token   int64
	}

	// RenewLeasesParams extends the leases of rows.
	RenewLeasesParams struct {
		LeaseUs  int64
		EventIds []string
		Owner    string
		Token    int64
	}
)

// The parameters and rows of the queries that both kinds of store run.
type (
	// RecordFailureParams keeps the last error of an event.
	RecordFailureParams = leasing.RecordFailureParams

	// DeleteFailuresParams forgets the errors of events.
	DeleteFailuresParams = leasing.DeleteFailuresParams

	// Waiting is what waits in the outbox.
	Waiting = leasing.Waiting

	// KeepRelayAliveParams records the run of a relay.
	KeepRelayAliveParams = leasing.KeepRelayAliveParams

	// EndRelayParams records the end of a run.
	EndRelayParams = leasing.EndRelayParams

	// RelayAliveUntilParams reads the row of a run.
	RelayAliveUntilParams = leasing.RelayAliveUntilParams

	// LockRelayParams locks the row of a run.
	LockRelayParams = leasing.LockRelayParams

	// DeleteRelayParams forgets a run.
	DeleteRelayParams = leasing.DeleteRelayParams

	// Pause is who has paused claims, and why.
	Pause = leasing.Pause
)
