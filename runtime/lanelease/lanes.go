package lanelease

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const (
	// idleTime is after how long without a due event a lane is given back.
	idleTime = time.Second

	// orphanTime is how long a free lane with due events is left to the relays
	// whose share it would be.
	orphanTime = 2 * time.Second

	// upkeepTime is between two looks at what is to be renewed and given back.
	upkeepTime = 250 * time.Millisecond
)

// run is what one run of a relay holds. Claims come from one goroutine,
// settlements from several.
type run struct {
	id string // the owner's

	// For Claim alone.
	ready     bool                 // the lanes' rows are there
	upkeep    time.Time            // of the next one
	share     int                  // how many lanes are its own, of all relays'
	freeSince map[uint16]time.Time // of lanes beyond the share that nobody has taken

	mu    sync.Mutex
	lanes map[uint16]*lane
}

// lane is a leased lane.
type lane struct {
	id      uint16
	version int64
	until   time.Time // of the lease, by this process's clock, early rather than late
	used    time.Time // when it last had a due event
	keep    time.Time // until when it isn't given back for the sake of another's share
	busy    bool      // a batch has events of it
	waited  int64     // microseconds that its first event has been due, at the last look

	// ranOut is when the lease before this one ended without having been given back, in
	// microseconds since 1970 by the database's clock; 0 when it was. Its owner may have
	// published what is older, and marked none of it.
	ranOut int64

	blocked blocked
}

func newRun(o outbox.Owner, lanes int) *run {
	return &run{id: o.ID.String(), share: lanes, freeSince: map[uint16]time.Time{}, lanes: map[uint16]*lane{}}
}

// add notes lanes that were just leased.
func (r *run) add(leased []FreeLane, until, now time.Time) []*lane {
	r.mu.Lock()
	defer r.mu.Unlock()
	added := make([]*lane, len(leased))
	for i, l := range leased {
		added[i] = &lane{id: l.Lane, version: l.LeaseVersion + 1, until: until, used: now}
		if l.LeaseOwner != "" {
			added[i].ranOut = l.LeaseUntilUs
		}
		if len(r.lanes) >= r.share {
			added[i].keep = until // an orphan: nobody else took it
		}
		r.lanes[l.Lane] = added[i]
	}
	return added
}

// sighted are the due lanes, the longest waiting first.
type sighted struct {
	held  []*lane  // by this run, and not in a batch
	free  []uint16 // nobody's, and within its share or left by the others
	stray []uint16 // this run's by the database's word and not by ours
}

// sight compares what is known with the due lanes that the database tells.
func (r *run) sight(due []DueLane, now time.Time) sighted {
	slices.SortFunc(due, func(a, b DueLane) int { return cmp.Compare(b.WaitedUs, a.WaitedUs) })
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, l := range r.lanes {
		if !now.Before(l.until) {
			delete(r.lanes, id)
		}
	}
	var out sighted
	room := r.share - len(r.lanes)
	seen := make(map[uint16]time.Time, len(r.freeSince))
	for _, d := range due {
		l := r.lanes[d.Lane]
		if l != nil && (d.LeaseOwner != r.id || d.LeaseVersion != l.version) {
			delete(r.lanes, d.Lane) // lost
			l = nil
		}
		switch {
		case l != nil:
			l.used, l.waited = now, d.WaitedUs
			if !l.busy {
				out.held = append(out.held, l)
			}
		case d.LeaseOwner == r.id:
			out.stray = append(out.stray, d.Lane)
		case room > 0:
			room--
			out.free = append(out.free, d.Lane)
		default:
			since, known := r.freeSince[d.Lane]
			if !known {
				since = now
			}
			seen[d.Lane] = since
			if now.Sub(since) >= orphanTime {
				out.free = append(out.free, d.Lane)
			}
		}
	}
	r.freeSince = seen
	return out
}

// surplus takes lanes from the run that are to be given back: idle ones, and
// those above its share.
func (r *run) surplus(now time.Time, probe bool) []uint16 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []uint16
	above := len(r.lanes) - r.share
	for _, id := range r.sortedLanes() {
		l := r.lanes[id]
		switch {
		case l.busy:
			continue
		case probe, now.Sub(l.used) >= idleTime:
		case above > 0 && now.After(l.keep):
		default:
			continue
		}
		above--
		out = append(out, id)
		delete(r.lanes, id)
	}
	return out
}

// ageing returns the lanes that no batch has and whose leases are past their half.
func (r *run) ageing(now time.Time, lease time.Duration) []uint16 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []uint16
	for _, id := range r.sortedLanes() {
		if l := r.lanes[id]; !l.busy && l.until.Sub(now) < lease/2 {
			out = append(out, id)
		}
	}
	return out
}

func (r *run) sortedLanes() []uint16 {
	ids := make([]uint16, 0, len(r.lanes))
	for id := range r.lanes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// renewed notes that the leases of lanes last until then.
func (r *run) renewed(lanes []uint16, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range lanes {
		if l := r.lanes[id]; l != nil && l.until.Before(until) {
			l.until = until
		}
	}
}

// forgetAll empties the run and returns the lanes that no batch has.
func (r *run) forgetAll() []uint16 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []uint16
	for _, id := range r.sortedLanes() {
		if !r.lanes[id].busy {
			out = append(out, id)
		}
	}
	clear(r.lanes)
	return out
}

// drop forgets lanes.
func (r *run) drop(lanes []uint16) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range lanes {
		delete(r.lanes, id)
	}
}

// holds reports whether the run leases any lane.
func (r *run) holds() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.lanes) > 0
}

// leaseEnd is when the first of the batch's leases ends; now, if one is lost.
func (r *run) leaseEnd(b *batchLease) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	var end time.Time
	for id, version := range b.lanes {
		l := r.lanes[id]
		if l == nil || l.version != version {
			return time.Now()
		}
		if end.IsZero() || l.until.Before(end) {
			end = l.until
		}
	}
	return end
}
