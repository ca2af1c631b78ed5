// Package rowlease is the outbox.Store of `ordering: none`: a relay leases the
// rows it claims, one by one, so that any relay can publish any event.
package rowlease

import (
	"context"
	"encoding/json"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Queries are the statements that the store runs. Generated code adapts those
// that sqlc made; the types below have their fields, in their order, so that a
// plain conversion does.
type Queries interface {
	SelectDueEvents(ctx context.Context, db outbox.DBTX, p SelectDueEventsParams) ([]DueEvent, error)
	LeaseEvents(ctx context.Context, db outbox.DBTX, p LeaseEventsParams) (int64, error)
	MarkPublished(ctx context.Context, db outbox.DBTX, p MarkPublishedParams) (int64, error)
	SelectMarked(ctx context.Context, db outbox.DBTX, p SelectMarkedParams) ([]string, error)
	ReleaseEvents(ctx context.Context, db outbox.DBTX, p ReleaseEventsParams) (int64, error)
	RetryEvent(ctx context.Context, db outbox.DBTX, p RetryEventParams) (int64, error)
	BuryEvent(ctx context.Context, db outbox.DBTX, p BuryEventParams) (int64, error)
	RecordFailure(ctx context.Context, db outbox.DBTX, p RecordFailureParams) error
	RenewLeases(ctx context.Context, db outbox.DBTX, p RenewLeasesParams) (int64, error)
	KeepRelayAlive(ctx context.Context, db outbox.DBTX, p KeepRelayAliveParams) error
	EndRelay(ctx context.Context, db outbox.DBTX, p EndRelayParams) error
	CountWaiting(ctx context.Context, db outbox.DBTX) (Waiting, error)
}

// The parameters and rows of the queries. Times are in microseconds.
type (
	// SelectDueEventsParams limits a claim.
	SelectDueEventsParams struct{ Limit int32 }

	// DueEvent is a row to be claimed.
	DueEvent struct {
		EventID       string
		AggregateType string
		AggregateID   string
		EventType     string
		EventVersion  int64
		SchemaVersion int32
		Payload       json.RawMessage
		Headers       json.RawMessage
		Attempts      uint32
		CreatedUs     int64
	}

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

	// SelectMarkedParams asks which rows a lease has marked.
	SelectMarkedParams struct {
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

	// RecordFailureParams keeps the last error of an event.
	RecordFailureParams struct {
		EventID string
		Kind    string
		Reason  string
	}

	// RenewLeasesParams extends the leases of rows.
	RenewLeasesParams struct {
		LeaseUs  int64
		EventIds []string
		Owner    string
		Token    int64
	}

	// KeepRelayAliveParams records the run of a relay.
	KeepRelayAliveParams struct {
		Owner   string
		Host    string
		Pid     int64
		AliveUs int64
	}

	// EndRelayParams records the end of a run.
	EndRelayParams struct{ Owner string }

	// Waiting is what waits in the outbox.
	Waiting struct {
		Waiting  int64
		OldestUs int64
	}
)
