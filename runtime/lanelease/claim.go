package lanelease

import (
	"context"
	"fmt"
	"time"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/runtime/internal/leasing"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Claim implements outbox.Store. It leases lanes in which events are due, as
// far as nobody does, and reads the first events of some that are in no other
// batch. No event is written or locked.
func (s *Store) Claim(ctx context.Context, c outbox.ClaimRequest) (*outbox.Batch, error) {
	r := s.run(c.Owner)
	if err := s.keepUp(ctx, r, c); err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	hold, err := s.pauses.Look(ctx, s.db, s.queries)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	if hold != nil { // what is leased and no longer needed was just given back
		return &outbox.Batch{Owner: c.Owner, Hold: hold}, nil
	}
	due, err := s.queries.SelectDueLanes(ctx, s.db, SelectDueLanesParams{Owner: r.id})
	if err != nil {
		return nil, fmt.Errorf("claim: select due lanes: %w", err)
	}
	seen := r.sight(due, time.Now())
	if len(seen.stray) > 0 { // a claim that was cut short, or a lease that was given up here
		if err := s.releaseLanes(ctx, r, seen.stray); err != nil {
			return nil, fmt.Errorf("claim: %w", err)
		}
	}
	lanes := seen.held
	if c.Probe { // no more than it takes
		seen.free = seen.free[:min(len(seen.free), max(0, 1-len(lanes)))]
	}
	if len(seen.free) > 0 {
		added, err := s.lease(ctx, r, seen.free, c.Lease)
		if err != nil {
			return nil, fmt.Errorf("claim: %w", err)
		}
		lanes = append(lanes, added...)
	}
	return s.read(ctx, r, c, lanes)
}

// lease leases those of the free lanes that still are, and that nobody has locked:
// a relay that stopped in the middle of a claim must not stop the others.
func (s *Store) lease(ctx context.Context, r *run, free []uint16, lease time.Duration) ([]*lane, error) {
	before := time.Now()
	var locked []FreeLane
	_, err := outbox.InTxWith(fault.In(ctx, fault.Claim), s.db, leasing.Isolation, func(tx *outbox.Tx) (err error) {
		locked, err = s.queries.LockFreeLanes(ctx, tx, LockFreeLanesParams{Lanes: free})
		if err != nil || len(locked) == 0 {
			return err
		}
		if err := fault.At(ctx, fault.RelaySelected); err != nil {
			return err
		}
		ids := make([]uint16, len(locked))
		for i, l := range locked {
			ids[i] = l.Lane
		}
		n, err := s.queries.LeaseLanes(ctx, tx, LeaseLanesParams{Owner: r.id, LeaseUs: lease.Microseconds(), Lanes: ids})
		// SKIP LOCKED is no fence by itself: some servers parse it and ignore it.
		if err == nil && n != int64(len(ids)) {
			err = fmt.Errorf("%d lanes were locked and %d leased", len(ids), n)
		}
		if err != nil {
			return err
		}
		return fault.At(ctx, fault.RelayLeased)
	})
	if err != nil {
		return nil, fmt.Errorf("lease lanes: %w", err)
	}
	return r.add(locked, before.Add(lease), time.Now()), nil
}

// keepUp does what is due now and then: it shows that the run is alive, learns
// its share, and renews lanes or gives them back.
func (s *Store) keepUp(ctx context.Context, r *run, c outbox.ClaimRequest) error {
	alive, err := s.relays.KeepAlive(ctx, s.db, s.queries, c.Owner, c.Lease)
	if err != nil {
		return err
	}
	if !r.ready {
		if err := s.makeLanes(ctx); err != nil {
			return err
		}
		r.ready = true
	}
	now := time.Now()
	if !alive && (!r.holds() || now.Before(r.upkeep) && !c.Probe) {
		return nil
	}
	r.upkeep = now.Add(upkeepTime)
	relays, err := s.queries.CountRelays(ctx, s.db)
	if err != nil {
		return fmt.Errorf("count relays: %w", err)
	}
	n := int(max(relays, 1))
	r.share = (s.cfg.Lanes + n - 1) / n
	if lanes := r.surplus(now, c.Probe); len(lanes) > 0 {
		if err := s.releaseLanes(ctx, r, lanes); err != nil {
			return err
		}
	}
	return s.renewAgeing(ctx, r, now, c.Lease)
}

func (s *Store) renewAgeing(ctx context.Context, r *run, now time.Time, lease time.Duration) error {
	lanes := r.ageing(now, lease)
	if len(lanes) == 0 {
		return nil
	}
	n, err := s.queries.RenewLanes(ctx, s.db, RenewLanesParams{LeaseUs: lease.Microseconds(), Lanes: lanes, Owner: r.id})
	switch {
	case err != nil:
		return fmt.Errorf("renew lanes: %w", err)
	case int(n) < len(lanes):
		r.drop(lanes) // which of them are lost isn't known
	default:
		r.renewed(lanes, now.Add(lease))
	}
	return nil
}

// makeLanes adds the lanes' rows, where they are missing: the events of a lane
// without a row would wait for ever.
func (s *Store) makeLanes(ctx context.Context) error {
	n, err := s.queries.CountLanes(ctx, s.db)
	if err == nil && int(n) < s.cfg.Lanes {
		err = s.queries.AddLanes(ctx, s.db)
	}
	if err != nil {
		return fmt.Errorf("make lanes: %w", err)
	}
	return nil
}
