package lanelease

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/outboxgen/outboxgen/runtime/internal/leasing"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const (
	// lanesPerRead is how many lanes one statement reads at most.
	lanesPerRead = 16

	// mostReads is how often a claim reads that finds nothing but blocked events.
	mostReads = 3
)

// batchLease is what the store must know of a batch.
type batchLease struct {
	run    *run
	lanes  map[uint16]int64 // versions
	places map[string]place // of its events, by key
	length time.Duration    // of the lease

	settled bool // under the run's mutex
}

// place is where an event belongs.
type place struct {
	lane uint16
	hash uint32 // of its aggregate

	attempts uint32 // so far
}

// read makes a batch of the first events of lanes.
func (s *Store) read(ctx context.Context, r *run, c outbox.ClaimRequest, lanes []*lane) (*outbox.Batch, error) {
	b := &building{
		limit:    int(s.size.Limit(c)),
		maxBytes: c.MaxBytes,
		origin:   s.cfg.origin(),
		batch:    &outbox.Batch{Owner: c.Owner, Ordered: true},
		lease:    &batchLease{run: r, lanes: map[uint16]int64{}, places: map[string]place{}, length: c.Lease},
	}
	b.batch.Lease = b.lease
	for range mostReads {
		passedOver := false
		for _, reading := range r.readings(lanes, time.Now()) {
			if b.full() {
				break
			}
			start := time.Now()
			rows, err := s.readLanes(ctx, reading, b.limit-len(b.batch.Events))
			if err != nil {
				return nil, fmt.Errorf("claim: select events: %w", err)
			}
			if reading.alone {
				r.measure(reading.lanes[0], start, time.Now())
			}
			passedOver = r.take(b, rows, time.Now()) || passedOver
		}
		if len(b.batch.Events) > 0 || !passedOver {
			break
		}
	}
	r.begin(b)
	s.size.Seen(len(b.batch.Events), b.largest)
	return b.batch, nil
}

func (s *Store) readLanes(ctx context.Context, r reading, limit int) ([]LaneEvent, error) {
	if len(r.blocked) == 0 {
		return s.queries.SelectLaneEvents(ctx, s.db, SelectLaneEventsParams{Lanes: r.lanes, Limit: int32(limit)})
	}
	return s.queries.SelectUnblockedEvents(ctx, s.db, SelectUnblockedEventsParams{
		Lanes: r.lanes, Blocked: r.blocked, Limit: int32(limit),
	})
}

// building is a batch on its way.
type building struct {
	limit    int
	maxBytes int
	origin   leasing.Origin
	batch    *outbox.Batch
	lease    *batchLease
	bytes    int
	largest  int
}

func (b *building) full() bool {
	return len(b.batch.Events) >= b.limit || b.maxBytes > 0 && b.bytes >= b.maxBytes
}

// add adds an event of a lane whose earlier lease ran out then; 0 if none did.
func (b *building) add(row LaneEvent, ranOut int64) {
	event := leasing.NewEvent(leasing.Row{
		EventID:       row.EventID,
		AggregateType: row.AggregateType,
		AggregateID:   row.AggregateID,
		EventType:     row.EventType,
		EventVersion:  row.EventVersion,
		SchemaVersion: row.SchemaVersion,
		Payload:       row.Payload,
		Headers:       row.Headers,
		Attempts:      row.Attempts,
		CreatedUs:     row.CreatedUs,
	}, b.origin)
	if row.CreatedUs <= ranOut {
		event.Repeat = outbox.RepeatLeaseExpired
	}
	b.batch.Events = append(b.batch.Events, event)
	b.lease.places[row.EventID] = place{lane: row.Lane, hash: row.AggregateHash, attempts: row.Attempts}
	b.bytes += len(row.Payload)
	b.largest = max(b.largest, len(row.Payload))
}

// reading is what one statement reads.
type reading struct {
	lanes   []uint16
	blocked []uint32
	alone   bool // a lane with many blocked events, or nobody knows how many
}

// readings chooses what to read of lanes: one that must be read alone, and some
// that can be read together, the longest waiting first.
func (r *run) readings(lanes []*lane, now time.Time) []reading {
	slices.SortStableFunc(lanes, func(a, b *lane) int { return cmp.Compare(b.waited, a.waited) })
	r.mu.Lock()
	defer r.mu.Unlock()
	var alone, together reading
	for _, l := range lanes {
		hashes := l.blocked.hashes(now, mostBlocked)
		switch {
		case l.blocked.rests(now):
		case l.blocked.alone(now):
			if alone.lanes == nil {
				alone = reading{lanes: []uint16{l.id}, blocked: hashes, alone: true}
			}
		case len(together.lanes) < lanesPerRead && len(together.blocked)+len(hashes) <= mostBlocked:
			together.lanes = append(together.lanes, l.id)
			together.blocked = append(together.blocked, hashes...)
		}
	}
	var out []reading
	for _, reading := range []reading{alone, together} {
		if len(reading.lanes) > 0 {
			out = append(out, reading)
		}
	}
	return out
}

func (r *run) measure(id uint16, start, end time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.lanes[id]; l != nil {
		l.blocked.measure(start, end)
	}
}

// take adds rows to the batch, but for those of blocked aggregates, and reports
// whether there were any of these.
func (r *run) take(b *building, rows []LaneEvent, now time.Time) (passedOver bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, row := range rows {
		l := r.lanes[row.Lane]
		if l == nil || b.full() {
			continue
		}
		if row.WaitUs > 0 {
			l.blocked.add(row.AggregateHash, now.Add(time.Duration(row.WaitUs)*time.Microsecond))
		}
		if now.Before(l.blocked.until[row.AggregateHash]) {
			passedOver = true
			continue
		}
		b.add(row, l.ranOut)
	}
	return passedOver
}

// begin makes the lanes of the batch's events busy.
func (r *run) begin(b *building) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range b.lease.places {
		l := r.lanes[p.lane]
		if _, known := b.lease.lanes[p.lane]; known || l == nil {
			continue
		}
		l.busy = true
		b.lease.lanes[p.lane] = l.version
		if b.batch.Until.IsZero() || l.until.Before(b.batch.Until) {
			b.batch.Until = l.until
		}
	}
}
