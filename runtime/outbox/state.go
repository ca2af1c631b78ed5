package outbox

import (
	"database/sql"
	"time"
)

// EventState is everything the outbox knows of one event.
type EventState struct {
	EventID          string
	Type             string
	AggregateType    string
	AggregateID      string
	AggregateVersion int64
	State            string // PENDING, PUBLISHING, PUBLISHED, DEAD or DISCARDED
	Attempts         int    // failed attempts so far

	// LeaseOwner is the run of a relay that holds the event, with lanes the
	// event's lane; empty when none does. With `ordering: none` it stays that of the
	// run that marked the event. LeaseHost and LeasePID say where it runs, if known.
	LeaseOwner string
	LeaseHost  string
	LeasePID   int64
	LeaseUntil time.Time // zero without a lease; with `ordering: none`, of a published event, when its lease would have ended

	LastErrorKind string // of the last failed attempt; empty without one
	LastError     string

	CreatedAt   time.Time
	AvailableAt time.Time // when it is, or was last, due
	PublishedAt time.Time // zero unless published
}

// EventStateRow is a row of the view outbox_event_state. Times are microseconds
// since 1970 in UTC, 0 for none, so that no time zone of a session or a driver
// comes between.
type EventStateRow struct {
	EventID       string
	EventType     string
	AggregateType string
	AggregateID   string
	EventVersion  int64
	State         string
	LeaseOwner    string
	LeaseHost     sql.NullString
	LeasePid      sql.NullInt64
	LeaseUntilUs  int64
	Attempts      uint32
	LastErrorKind sql.NullString
	LastError     sql.NullString
	CreatedUs     int64
	AvailableUs   int64
	PublishedUs   int64
}

// NewEventState is called by generated code.
func NewEventState(r EventStateRow) EventState {
	return EventState{
		EventID:          r.EventID,
		Type:             r.EventType,
		AggregateType:    r.AggregateType,
		AggregateID:      r.AggregateID,
		AggregateVersion: r.EventVersion,
		State:            r.State,
		Attempts:         int(r.Attempts),
		LeaseOwner:       r.LeaseOwner,
		LeaseHost:        r.LeaseHost.String,
		LeasePID:         r.LeasePid.Int64,
		LeaseUntil:       fromMicros(r.LeaseUntilUs),
		LastErrorKind:    r.LastErrorKind.String,
		LastError:        r.LastError.String,
		CreatedAt:        fromMicros(r.CreatedUs),
		AvailableAt:      fromMicros(r.AvailableUs),
		PublishedAt:      fromMicros(r.PublishedUs),
	}
}

// Consumption is how, and when, a consumer was done with an event.
type Consumption struct {
	Outcome Handling // Applied, Skipped, Parked or Discarded
	At      time.Time
}

// ConsumptionRow is a row of consumed_event, its time in microseconds since 1970.
type ConsumptionRow struct {
	Outcome    uint8
	ConsumedUs int64
}

// NewConsumption is called by generated code.
func NewConsumption(r ConsumptionRow) Consumption {
	return Consumption{Outcome: Handling(r.Outcome), At: fromMicros(r.ConsumedUs)}
}

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
