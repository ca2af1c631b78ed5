package outbox

import "sync/atomic"

// SubscribeStats counts what a broker's subscription did. Read it at any time.
type SubscribeStats struct {
	Delivered   atomic.Int64 // messages received, repeats among them
	Redelivered atomic.Int64 // those that the broker says it had delivered before
	Handled     atomic.Int64 // applied, or found to be duplicates, stale or to be parked
	Unreadable  atomic.Int64 // of those: messages that aren't events, parked
	Failed      atomic.Int64 // errors of the handler that a redelivery follows
	HeldBack    atomic.Int64 // given back because an earlier event of the aggregate waits
	Panics      atomic.Int64 // of Failed: panics that came through Handle
	Pauses      atomic.Int64 // times that the database could not be worked with
	Acked       atomic.Int64 // acknowledgements that the broker has, as far as it tells
	AckFailed   atomic.Int64 // acknowledgements that got lost; the message comes again
}
