package rowlease

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// maxReason is the width of outbox_failure.reason, in characters.
const maxReason = 1024

// Settle implements outbox.Store. Every statement names the lease, owner and
// token, and the rows it changed are counted: what another relay has claimed
// since is left alone and reported as lost.
//
// What was published or is given back has a transaction of its own, before that
// of the failures: trouble with these, such as a reason that can't be stored,
// must not have the published events published again.
func (s *Store) Settle(ctx context.Context, b *outbox.Batch, outcomes []outbox.EventOutcome) (outbox.Settlement, error) {
	settle := settlement{queries: s.queries, owner: b.Owner.ID.String(), token: b.Token}
	var failed []outbox.EventOutcome
	for _, o := range outcomes {
		switch o.Kind {
		case outbox.OutcomePublished:
			settle.published = append(settle.published, o.Key)
		case outbox.OutcomeReleased:
			settle.release(o)
		case outbox.OutcomeRetry, outbox.OutcomeDead:
			failed = append(failed, o)
		case outbox.OutcomeUnknown:
			// Left to the end of its lease.
		}
	}
	var result outbox.Settlement
	for _, step := range []struct {
		needed bool
		run    func(context.Context) error
	}{
		{len(settle.published)+len(settle.released) > 0, settle.succeed},
		{len(failed) > 0, func(ctx context.Context) error { return settle.fail(ctx, failed) }},
	} {
		if !step.needed {
			continue
		}
		_, err := outbox.InTxWith(ctx, s.db, claimIsolation, func(tx *outbox.Tx) error {
			settle.tx, settle.result = tx, outbox.Settlement{}
			return step.run(ctx)
		})
		if err != nil {
			return outbox.Settlement{}, fmt.Errorf("settle: %w", err)
		}
		result = sum(result, settle.result)
	}
	return result, nil
}

func sum(a, b outbox.Settlement) outbox.Settlement {
	return outbox.Settlement{
		Published: a.Published + b.Published,
		Released:  a.Released + b.Released,
		Retried:   a.Retried + b.Retried,
		Dead:      a.Dead + b.Dead,
		Lost:      append(a.Lost, b.Lost...),
	}
}

// settlement is one call of Settle.
type settlement struct {
	queries   Queries
	owner     string
	token     int64
	published []string
	released  []release // by delay

	tx     *outbox.Tx
	result outbox.Settlement
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

func (s *settlement) fail(ctx context.Context, failed []outbox.EventOutcome) error {
	for _, o := range failed {
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
	if int(marked) == len(keys) {
		return nil
	}
	// Either leases were lost, or an earlier Settle did commit although its
	// reply was lost. The rows tell which.
	rows, err := s.queries.SelectMarked(ctx, s.tx, SelectMarkedParams{EventIds: keys, Owner: s.owner, Token: s.token})
	if err != nil {
		return fmt.Errorf("select marked events: %w", err)
	}
	ours := make(map[string]bool, len(rows))
	for _, id := range rows {
		ours[id] = true
	}
	for _, key := range keys {
		if !ours[key] {
			s.lost(key)
			s.result.Published--
		}
	}
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
	err := s.queries.RecordFailure(ctx, s.tx, RecordFailureParams{
		EventID: o.Key, Kind: o.Failure.String(), Reason: cut(o.Reason, maxReason),
	})
	if err != nil {
		return fmt.Errorf("record failure: %w", err)
	}
	return nil
}

func (s *settlement) lost(key string) { s.result.Lost = append(s.result.Lost, key) }

// cut returns at most limit characters of s, and only UTF-8.
func cut(s string, limit int) string {
	if !utf8.ValidString(s) {
		s = string([]rune(s)) // each bad byte becomes U+FFFD
	}
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit])
}
