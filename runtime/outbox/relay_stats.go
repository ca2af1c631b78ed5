package outbox

import "sync/atomic"

// RelayStats counts what a relay did since it was made, over all its runs.
type RelayStats struct {
	Claimed    int64 // events leased
	Confirmed  int64 // events that the broker confirmed
	Published  int64 // events marked published
	Retried    int64 // failed attempts that will be made again
	Dead       int64 // events buried
	Released   int64 // events given back without an attempt
	Unknown    int64 // events left to their lease: the broker may have them
	Lost       int64 // events whose lease was lost before the mark
	Abandoned  int64 // events that could not be settled in time
	Pauses     int64 // pauses for want of a broker
	Renewals   int64 // leases of batches that were renewed
	OutOfOrder int64 // events confirmed before an earlier one of their aggregate in the same call
}

type relayCounters struct {
	claimed, confirmed, published, retried, dead atomic.Int64
	released, unknown, lost, abandoned, pauses   atomic.Int64
	renewals, outOfOrder                         atomic.Int64
}

// Stats returns the counts so far.
func (r *Relay) Stats() RelayStats {
	return RelayStats{
		Claimed:    r.stats.claimed.Load(),
		Confirmed:  r.stats.confirmed.Load(),
		Published:  r.stats.published.Load(),
		Retried:    r.stats.retried.Load(),
		Dead:       r.stats.dead.Load(),
		Released:   r.stats.released.Load(),
		Unknown:    r.stats.unknown.Load(),
		Lost:       r.stats.lost.Load(),
		Abandoned:  r.stats.abandoned.Load(),
		Pauses:     r.stats.pauses.Load(),
		Renewals:   r.stats.renewals.Load(),
		OutOfOrder: r.stats.outOfOrder.Load(),
	}
}
