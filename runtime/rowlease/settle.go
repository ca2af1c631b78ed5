package rowlease

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/runtime/internal/leasing"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Settle implements outbox.Store. Every statement names the lease, owner and
// token, and the rows it changed are counted: what another relay has claimed
// since is left alone and reported as lost.
//
// What was published or is given back has a transaction of its own, before that
// of the failures: trouble with these, such as a reason that can't be stored,
// must not have the published events published again.
func (s *Store) Settle(ctx context.Context, b *outbox.Batch, outcomes []outbox.EventOutcome) (outbox.Settlement, error) {
	settle := settlement{queries: s.queries, cfg: s.cfg, batch: b, owner: b.Owner.ID.String(), token: b.Token}
	for _, o := range outcomes {
		switch o.Kind {
		case outbox.OutcomePublished:
			settle.published = append(settle.published, o.Key)
		case outbox.OutcomeReleased:
			settle.release(o)
		case outbox.OutcomeRetry, outbox.OutcomeDead:
			settle.failed = append(settle.failed, o)
		case outbox.OutcomeUnknown:
			// Left to the end of its lease.
		}
	}
	if len(settle.published)+len(settle.released) > 0 {
		if err := s.inTx(ctx, &settle, settle.succeed); err != nil {
			return outbox.Settlement{}, err
		}
	}
	if len(settle.failed) > 0 {
		if err := s.inTx(ctx, &settle, settle.fail); err != nil {
			return outbox.Settlement{}, err
		}
	}
	return settle.result, nil
}

// inTx runs a part of a settlement in a transaction of its own.
func (s *Store) inTx(ctx context.Context, settle *settlement, run func(context.Context) error) error {
	_, err := outbox.InTxWith(fault.In(ctx, fault.Mark), s.db, leasing.Isolation, func(tx *outbox.Tx) error {
		settle.tx = tx
		return run(ctx)
	})
	if err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	return nil
}

// settlement is one call of Settle.
type settlement struct {
	queries   Queries
	cfg       Config
	batch     *outbox.Batch
	owner     string
	token     int64
	published []string
	released  []release // by delay
	failed    []outbox.EventOutcome

	tx     *outbox.Tx
	result outbox.Settlement // of all parts
}

// release is a set of events that are due after the same delay.
type release struct {
	delay time.Duration
	keys  []string
}

func (s *settlement) release(o outbox.EventOutcome) {
	i := slices.IndexFunc(s.released, func(r release) bool { return r.delay == o.Backoff })
	if i < 0 {
		i = len(s.released)
		s.released = append(s.released, release{delay: o.Backoff})
	}
	s.released[i].keys = append(s.released[i].keys, o.Key)
}

func (s *settlement) succeed(ctx context.Context) error {
	if err := s.markPublished(ctx, s.published); err != nil {
		return err
	}
	for _, r := range s.released {
		if err := s.giveBack(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (s *settlement) fail(ctx context.Context) error {
	for _, o := range s.failed {
		settle := s.retry
		if o.Kind == outbox.OutcomeDead {
			settle = s.bury
		}
		if err := settle(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func (s *settlement) markPublished(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	marked, err := s.queries.MarkPublished(ctx, s.tx, MarkPublishedParams{EventIds: keys, Owner: s.owner, Token: s.token})
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
	// Either leases were lost, or an earlier Settle did commit although its
	// reply was lost. The rows tell which. One that is gone was published, and
	// then deleted or purged.
	lost, err := s.queries.SelectUnmarked(ctx, s.tx, SelectUnmarkedParams{EventIds: keys, Owner: s.owner, Token: s.token})
	if err != nil {
		return fmt.Errorf("select unmarked events: %w", err)
	}
	s.result.Published -= len(lost)
	s.result.Lost = append(s.result.Lost, lost...)
	return nil
}

// giveBack returns what was not published. A lease that was lost meanwhile is
// no loss here: the event is with another relay.
func (s *settlement) giveBack(ctx context.Context, r release) error {
	n, err := s.queries.ReleaseEvents(ctx, s.tx, ReleaseEventsParams{
		DelayUs: r.delay.Microseconds(), EventIds: r.keys, Owner: s.owner, Token: s.token,
	})
	if err != nil {
		return fmt.Errorf("release events: %w", err)
	}
	s.result.Released += int(n)
	return nil
}

func (s *settlement) retry(ctx context.Context, o outbox.EventOutcome) error {
	n, err := s.queries.RetryEvent(ctx, s.tx, RetryEventParams{
		BackoffUs: o.Backoff.Microseconds(), EventID: o.Key, Owner: s.owner, Token: s.token,
	})
	if err != nil {
		return fmt.Errorf("retry event: %w", err)
	}
	if n == 0 {
		s.lost(o.Key)
		return nil
	}
	s.result.Retried++
	return s.recordFailure(ctx, o)
}

func (s *settlement) bury(ctx context.Context, o outbox.EventOutcome) error {
	n, err := s.queries.BuryEvent(ctx, s.tx, BuryEventParams{EventID: o.Key, Owner: s.owner, Token: s.token})
	if err != nil {
		return fmt.Errorf("bury event: %w", err)
	}
	if n == 0 {
		s.lost(o.Key)
		return nil
	}
	s.result.Dead++
	return s.recordFailure(ctx, o)
}

func (s *settlement) recordFailure(ctx context.Context, o outbox.EventOutcome) error {
	err := s.queries.RecordFailure(ctx, s.tx, leasing.Failure(o))
	if err != nil {
		return fmt.Errorf("record failure: %w", err)
	}
	return nil
}

func (s *settlement) lost(key string) { s.result.Lost = append(s.result.Lost, key) }
