package lanelease

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/runtime/internal/leasing"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Settle implements outbox.Store. It locks the rows of the batch's lanes and
// compares owner and version: what is in a lane that was lost is left alone and
// reported. While they are locked nobody else can lease them.
//
// What was published has a transaction of its own, before that of the failures:
// trouble with these, such as a reason that can't be stored, must not have the
// published events published again.
func (s *Store) Settle(ctx context.Context, b *outbox.Batch, outcomes []outbox.EventOutcome) (outbox.Settlement, error) {
	settle := settlement{Store: s, batch: b}
	var ok bool
	if settle.lease, ok = b.Lease.(*batchLease); !ok {
		return outbox.Settlement{}, fmt.Errorf("settle: the batch is not of this store")
	}
	settle.sort(outcomes)
	if len(settle.published) > 0 {
		if err := settle.inTx(ctx, settle.succeed); err != nil {
			return outbox.Settlement{}, err
		}
	}
	if len(settle.failed)+len(settle.unknown) > 0 {
		if err := settle.inTx(ctx, settle.fail); err != nil {
			return outbox.Settlement{}, err
		}
	}
	settle.finish()
	return settle.result, nil
}

// settlement is one call of Settle.
type settlement struct {
	*Store
	batch     *outbox.Batch
	lease     *batchLease
	published []string
	unknown   []string
	released  []outbox.EventOutcome
	failed    []outbox.EventOutcome

	tx      *outbox.Tx
	ours    map[uint16]bool // the lanes that are still the batch's
	renewed time.Time       // until when, if at all
	wait    time.Duration   // of the events whose outcome is unknown
	result  outbox.Settlement
}

func (s *settlement) sort(outcomes []outbox.EventOutcome) {
	for _, o := range outcomes {
		switch o.Kind {
		case outbox.OutcomePublished:
			s.published = append(s.published, o.Key)
		case outbox.OutcomeReleased:
			s.released = append(s.released, o)
		case outbox.OutcomeRetry, outbox.OutcomeDead:
			s.failed = append(s.failed, o)
		case outbox.OutcomeUnknown:
			s.unknown = append(s.unknown, o.Key)
		}
	}
}

// inTx runs a part of a settlement in a transaction that has the lanes locked.
func (s *settlement) inTx(ctx context.Context, part func(context.Context) error) error {
	_, err := outbox.InTxWith(fault.In(ctx, fault.Mark), s.db, leasing.Isolation, func(tx *outbox.Tx) error {
		s.tx = tx
		if err := s.lockLanes(ctx); err != nil {
			return err
		}
		return part(ctx)
	})
	if err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	return nil
}

func (s *settlement) lockLanes(ctx context.Context) (err error) {
	s.ours, err = lockLanes(ctx, s.tx, s.queries, s.batch, s.lease)
	return err
}

// lockLanes locks the lanes of a batch and tells which are still leased to it.
func lockLanes(ctx context.Context, tx *outbox.Tx, q Queries, b *outbox.Batch, lease *batchLease) (map[uint16]bool, error) {
	locked, err := q.LockLanes(ctx, tx, LockLanesParams{Lanes: slices.Sorted(maps.Keys(lease.lanes))})
	if err != nil {
		return nil, fmt.Errorf("lock lanes: %w", err)
	}
	owner := b.Owner.ID.String()
	ours := make(map[uint16]bool, len(locked))
	for _, l := range locked {
		ours[l.Lane] = l.LeaseOwner == owner && l.LeaseVersion == lease.lanes[l.Lane]
	}
	return ours, nil
}

// own returns those of the keys whose lanes are ours, and counts the others as lost.
func (s *settlement) own(keys []string) []string {
	own := make([]string, 0, len(keys))
	for _, key := range keys {
		if s.owns(key) {
			own = append(own, key)
		}
	}
	return own
}

func (s *settlement) owns(key string) bool {
	if s.ours[s.lease.places[key].lane] {
		return true
	}
	s.result.Lost = append(s.result.Lost, key)
	return false
}

func (s *settlement) succeed(ctx context.Context) error {
	keys := s.own(s.published)
	if len(keys) > 0 {
		if err := s.markPublished(ctx, keys); err != nil {
			return err
		}
	}
	return s.renewPastHalf(ctx)
}

func (s *settlement) markPublished(ctx context.Context, keys []string) error {
	marked, err := s.queries.MarkPublished(ctx, s.tx, MarkPublishedParams{EventIds: keys})
	if err != nil {
		return fmt.Errorf("mark published: %w", err)
	}
	s.result.Published = len(keys)
	if s.cfg.DeletePublished {
		if err := leasing.DeleteFailures(ctx, s.tx, s.queries, s.batch, keys); err != nil {
			return err
		}
	}
	if int(marked) == len(keys) {
		return nil
	}
	// An earlier Settle did commit although its reply was lost, or somebody
	// changed the rows by hand. One that is gone was published and deleted.
	lost, err := s.queries.SelectUnmarked(ctx, s.tx, SelectUnmarkedParams{EventIds: keys})
	if err != nil {
		return fmt.Errorf("select unmarked events: %w", err)
	}
	s.result.Published -= len(lost)
	s.result.Lost = append(s.result.Lost, lost...)
	return nil
}

// renewPastHalf renews the lanes in passing, so that a busy relay has no renewals
// to do apart.
func (s *settlement) renewPastHalf(ctx context.Context) error {
	now := time.Now()
	if s.lease.run.leaseEnd(s.lease).Sub(now) >= s.lease.length/2 {
		return nil
	}
	lanes := ownLanes(s.ours)
	if len(lanes) == 0 {
		return nil
	}
	if _, err := s.queries.RenewLanes(ctx, s.tx, RenewLanesParams{
		LeaseUs: s.lease.length.Microseconds(), Lanes: lanes, Owner: s.batch.Owner.ID.String(),
	}); err != nil {
		return fmt.Errorf("renew lanes: %w", err)
	}
	s.renewed = now.Add(s.lease.length)
	return nil
}

func ownLanes(ours map[uint16]bool) []uint16 {
	var lanes []uint16
	for id, own := range ours {
		if own {
			lanes = append(lanes, id)
		}
	}
	slices.Sort(lanes)
	return lanes
}

func (s *settlement) fail(ctx context.Context) error {
	for _, o := range s.failed {
		if err := s.recordOutcome(ctx, o); err != nil {
			return err
		}
	}
	var unknown []string
	for _, key := range s.unknown {
		if s.ours[s.lease.places[key].lane] { // else another relay has it already
			unknown = append(unknown, key)
		}
	}
	s.wait = max(0, time.Until(s.lease.run.leaseEnd(s.lease)))
	if len(unknown) == 0 || s.wait == 0 {
		return nil
	}
	if _, err := s.queries.DelayEvents(ctx, s.tx, DelayEventsParams{DelayUs: s.wait.Microseconds(), EventIds: unknown}); err != nil {
		return fmt.Errorf("delay events: %w", err)
	}
	return nil
}

func (s *settlement) recordOutcome(ctx context.Context, o outbox.EventOutcome) error {
	if !s.owns(o.Key) {
		return nil
	}
	var n int64
	var err error
	if o.Kind == outbox.OutcomeDead {
		n, err = s.queries.BuryEvent(ctx, s.tx, BuryEventParams{EventID: o.Key})
	} else {
		n, err = s.queries.RetryEvent(ctx, s.tx, RetryEventParams{
			BackoffUs: o.Backoff.Microseconds(), EventID: o.Key, Attempts: s.lease.places[o.Key].attempts,
		})
	}
	switch {
	case err != nil:
		return fmt.Errorf("record an outcome: %w", err)
	case n == 0:
		s.result.Lost = append(s.result.Lost, o.Key)
		return nil
	case o.Kind == outbox.OutcomeDead:
		s.result.Dead++
	default:
		s.result.Retried++
	}
	if err := s.queries.RecordFailure(ctx, s.tx, leasing.Failure(o)); err != nil {
		return fmt.Errorf("record failure: %w", err)
	}
	return nil
}

// finish frees the lanes for the next batch, and remembers which aggregates wait.
func (s *settlement) finish() {
	r, now := s.lease.run, time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.lease.settled || s.batch.Owner.ID.String() != r.id {
		return
	}
	s.lease.settled = true
	mine := make(map[uint16]*lane, len(s.lease.lanes))
	for id, version := range s.lease.lanes {
		l := r.lanes[id]
		if l == nil || l.version != version {
			continue
		}
		if own, locked := s.ours[id]; locked && !own {
			delete(r.lanes, id) // lost
			continue
		}
		mine[id] = l
		l.busy, l.used = false, now
		if l.until.Before(s.renewed) {
			l.until = s.renewed
		}
	}
	block := func(key string, wait time.Duration) {
		p := s.lease.places[key]
		if l := mine[p.lane]; l != nil && wait > 0 {
			l.blocked.add(p.hash, now.Add(wait))
		}
	}
	for _, o := range s.released {
		if mine[s.lease.places[o.Key].lane] != nil {
			s.result.Released++
			block(o.Key, o.Backoff)
		}
	}
	for _, key := range s.unknown {
		block(key, s.wait)
	}
	for _, o := range s.failed {
		if o.Kind == outbox.OutcomeRetry {
			block(o.Key, o.Backoff)
		}
	}
}

// Renew implements outbox.Store.
func (s *Store) Renew(ctx context.Context, b *outbox.Batch, length time.Duration) (int, error) {
	lease, ok := b.Lease.(*batchLease)
	if !ok {
		return 0, fmt.Errorf("renew: the batch is not of this store")
	}
	lease.run.mu.Lock()
	settled := lease.settled
	lease.run.mu.Unlock()
	if settled {
		return 0, nil
	}
	before := time.Now()
	var ours map[uint16]bool
	_, err := outbox.InTxWith(fault.In(ctx, fault.Other), s.db, leasing.Isolation, func(tx *outbox.Tx) (err error) {
		if ours, err = lockLanes(ctx, tx, s.queries, b, lease); err != nil {
			return err
		}
		lanes := ownLanes(ours)
		if len(lanes) == 0 {
			return nil
		}
		_, err = s.queries.RenewLanes(ctx, tx, RenewLanesParams{
			LeaseUs: length.Microseconds(), Lanes: lanes, Owner: b.Owner.ID.String(),
		})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("renew: %w", err)
	}
	lease.run.renewed(ownLanes(ours), before.Add(length))
	n := 0
	for _, p := range lease.places {
		if ours[p.lane] {
			n++
		}
	}
	return n, nil
}
