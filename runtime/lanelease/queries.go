package lanelease

import (
	"context"
	"encoding/json"

	"github.com/outboxgen/outboxgen/runtime/internal/leasing"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Queries are the statements that the store runs. Generated code adapts those
// that sqlc made; the types below have their fields, in their order, so that a
// plain conversion does.
type Queries interface {
	SelectDueLanes(ctx context.Context, db outbox.DBTX, p SelectDueLanesParams) ([]DueLane, error)
	LockFreeLanes(ctx context.Context, db outbox.DBTX, p LockFreeLanesParams) ([]FreeLane, error)
	LeaseLanes(ctx context.Context, db outbox.DBTX, p LeaseLanesParams) (int64, error)
	LockLanes(ctx context.Context, db outbox.DBTX, p LockLanesParams) ([]LockedLane, error)
	RenewLanes(ctx context.Context, db outbox.DBTX, p RenewLanesParams) (int64, error)
	ReleaseLanes(ctx context.Context, db outbox.DBTX, p ReleaseLanesParams) (int64, error)
	CountLanes(ctx context.Context, db outbox.DBTX) (int64, error)
	AddLanes(ctx context.Context, db outbox.DBTX) error
	CountRelays(ctx context.Context, db outbox.DBTX) (int64, error)
	SelectLaneEvents(ctx context.Context, db outbox.DBTX, p SelectLaneEventsParams) ([]LaneEvent, error)
	SelectUnblockedEvents(ctx context.Context, db outbox.DBTX, p SelectUnblockedEventsParams) ([]LaneEvent, error)
	MarkPublished(ctx context.Context, db outbox.DBTX, p MarkPublishedParams) (int64, error)
	SelectUnmarked(ctx context.Context, db outbox.DBTX, p SelectUnmarkedParams) ([]string, error)
	RetryEvent(ctx context.Context, db outbox.DBTX, p RetryEventParams) (int64, error)
	DelayEvents(ctx context.Context, db outbox.DBTX, p DelayEventsParams) (int64, error)
	BuryEvent(ctx context.Context, db outbox.DBTX, p BuryEventParams) (int64, error)
	leasing.Queries
}

// The parameters and rows of the queries. Times are in microseconds.
type (
	// SelectDueLanesParams asks for the lanes that are the owner's or nobody's.
	SelectDueLanesParams struct{ Owner string }

	// DueLane is a lane with due events.
	DueLane struct {
		Lane         uint16
		LeaseOwner   string
		LeaseVersion int64
		WaitedUs     int64 // how long its first event has been due
	}

	// LockFreeLanesParams locks lanes that nobody leases.
	LockFreeLanesParams struct{ Lanes []uint16 }

	// FreeLane is a lane that nobody leases.
	FreeLane struct {
		Lane         uint16
		LeaseVersion int64
		LeaseOwner   string // of the lease that ran out; empty when it was given back
		LeaseUntilUs int64  // when it did, since 1970
	}

	// LeaseLanesParams leases lanes that the transaction has locked.
	LeaseLanesParams struct {
		Owner   string
		LeaseUs int64
		Lanes   []uint16
	}

	// LockLanesParams locks lanes, whosever they are.
	LockLanesParams struct{ Lanes []uint16 }

	// LockedLane is a lane and whose it is.
	LockedLane struct {
		Lane         uint16
		LeaseOwner   string
		LeaseVersion int64
	}

	// RenewLanesParams extends the leases of an owner's lanes.
	RenewLanesParams struct {
		LeaseUs int64
		Lanes   []uint16
		Owner   string
	}

	// ReleaseLanesParams gives an owner's lanes back.
	ReleaseLanesParams struct {
		Lanes []uint16
		Owner string
	}

	// SelectLaneEventsParams reads the due events of lanes.
	SelectLaneEventsParams struct {
		Lanes []uint16
		Limit int32
	}

	// SelectUnblockedEventsParams leaves aggregates out.
	SelectUnblockedEventsParams struct {
		Lanes   []uint16
		Blocked []uint32
		Limit   int32
	}

	// LaneEvent is a due event in its lane.
	LaneEvent struct {
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
		Lane          uint16
		AggregateHash uint32
		WaitUs        int64 // until its next attempt; not above 0 when that is due
	}

	// MarkPublishedParams marks events of locked lanes.
	MarkPublishedParams struct{ EventIds []string }

	// SelectUnmarkedParams asks which events are not marked.
	SelectUnmarkedParams struct{ EventIds []string }

	// RetryEventParams counts a failed attempt of an event of a locked lane.
	RetryEventParams struct {
		BackoffUs int64
		EventID   string
		Attempts  uint32 // before this one
	}

	// DelayEventsParams lets events of locked lanes wait.
	DelayEventsParams struct {
		DelayUs  int64
		EventIds []string
	}

	// BuryEventParams makes an event of a locked lane dead.
	BuryEventParams struct{ EventID string }
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
