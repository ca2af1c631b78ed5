package outbox

import "time"

// Observer has functions that a relay calls as things happen, for metrics and
// traces; nil ones are not called. They are called from several goroutines, and
// the relay waits for them: they must be quick, must not block and must not keep
// or change what they are given. One that panics is logged and goes on being called.
type Observer struct {
	// Claimed is called after each claim that found events.
	Claimed func(Claimed)

	// Answered is called when the publisher has answered for a batch.
	Answered func(Answered)

	// Settled is called after each settlement that the store has recorded.
	Settled func(Settled)

	// Abandoned is called when the events of a batch could not be settled in time:
	// they will be published again.
	Abandoned func(events int)

	// Paused is called when the relay begins to wait for the broker, or goes on
	// waiting after a probe; Resumed when the broker answers again.
	Paused  func(Paused)
	Resumed func()

	// OnHold is called when somebody has paused claims, and with nil when they have
	// resumed them.
	OnHold func(*Hold)

	// StoreFailed is called after each call of the store that failed.
	StoreFailed func(StoreFailed)

	// Backlog is called every RelayConfig.BacklogInterval.
	Backlog func(Backlog)
}

// Claimed tells of a claim.
type Claimed struct {
	Events []Event
	Took   time.Duration
}

// Answered tells of what the publisher said.
type Answered struct {
	Events []Event       // those of the batch that can be published
	Errors []error       // by event: nil for a confirm, else as a Publisher returns it; see FailureKindOf
	Took   time.Duration // more than one call when the publisher panicked
}

// Settled tells of a settlement.
type Settled struct {
	Settlement
	Outcomes []EventOutcome // of all events of the batch; those in Lost were not recorded
	Took     time.Duration  // of the call that succeeded
}

// Paused tells of a pause.
type Paused struct {
	For   time.Duration
	Error error // the broker's
}

// StoreFailed tells of the store's trouble.
type StoreFailed struct {
	Call  string // check, claim, renew, settle, release or backlog
	Error error
}
