// Package leasing holds what the stores of both kinds of lease share.
package leasing

import (
	"context"
	"encoding/json"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Queries are the statements that both kinds of store run.
type Queries interface {
	RecordFailure(ctx context.Context, db outbox.DBTX, p RecordFailureParams) error
	DeleteFailures(ctx context.Context, db outbox.DBTX, p DeleteFailuresParams) error
	CountWaiting(ctx context.Context, db outbox.DBTX) (Waiting, error)
	CountDead(ctx context.Context, db outbox.DBTX) (int64, error)
	KeepRelayAlive(ctx context.Context, db outbox.DBTX, p KeepRelayAliveParams) error
	EndRelay(ctx context.Context, db outbox.DBTX, p EndRelayParams) error
	RelayAliveUntil(ctx context.Context, db outbox.DBTX, p RelayAliveUntilParams) (int64, error)
	LockRelay(ctx context.Context, db outbox.DBTX, p LockRelayParams) ([]string, error)
	DeleteRelay(ctx context.Context, db outbox.DBTX, p DeleteRelayParams) error
	ReadPause(ctx context.Context, db outbox.DBTX) ([]Pause, error)
}

// The parameters and rows of the queries. Times are in microseconds.
type (
	// RecordFailureParams keeps the last error of an event.
	RecordFailureParams struct {
		EventID string
		Kind    string
		Reason  string
	}

	// DeleteFailuresParams forgets the errors of events.
	DeleteFailuresParams struct{ EventIds []string }

	// Waiting is what waits in the outbox.
	Waiting struct {
		Waiting  int64
		OldestUs int64
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

	// RelayAliveUntilParams reads the row of a run.
	RelayAliveUntilParams struct{ Owner string }

	// LockRelayParams locks the row of a run.
	LockRelayParams struct{ Owner string }

	// DeleteRelayParams forgets a run.
	DeleteRelayParams struct{ Owner string }

	// Pause is who has paused claims, and why.
	Pause struct {
		Operator string
		Reason   string
		PausedUs int64
	}
)

// Row is what the table holds of an event, as far as it is published.
type Row struct {
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
	LeaseOwner    string // of a row's lease that ran out and was not given back, else empty
}
