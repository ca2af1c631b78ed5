package rowlease

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// maxReason is the width of outbox_failure.reason, in characters.
const maxReason = 1024

// Settle implements outbox.Store. Every statement names the lease, owner and
// token, and the rows it changed are counted: what another relay has claimed
// since is left alone and reported as lost.
func (s *Store) Settle(ctx context.Context, b *outbox.Batch, outcomes []outbox.EventOutcome) (outbox.Settlement, error) {
	var result outbox.Settlement
	_, err := outbox.InTxWith(ctx, s.db, claimIsolation, func(tx *outbox.Tx) error {
		settle := settlement{queries: s.queries, tx: tx, owner: b.Owner.ID.String(), token: b.Token}
		if err := settle.run(ctx, outcomes); err != nil {
			return err
		}
		result = settle.result
		return nil
	})
	if err != nil {
		return outbox.Settlement{}, fmt.Errorf("settle: %w", err)
	}
	return result, nil
}

// settlement is one call of Settle.
type settlement struct {
	queries Queries
	tx      *outbox.Tx
	owner   string
	token   int64
	result  outbox.Settlement
}

func (s *settlement) run(ctx context.Context, outcomes []outbox.EventOutcome) error {
	var published, released []string
	for _, o := range outcomes {
		var err error
		switch o.Kind {
		case outbox.OutcomePublished:
			published = append(published, o.Key)
		case outbox.OutcomeReleased:
			released = append(released, o.Key)
		case outbox.OutcomeRetry:
			err = s.retry(ctx, o)
		case outbox.OutcomeDead:
			err = s.bury(ctx, o)
		case outbox.OutcomeUnknown:
			// Left to the end of its lease.
		}
		if err != nil {
			return err
		}
	}
	if err := s.markPublished(ctx, published); err != nil {
		return err
	}
	return s.release(ctx, released)
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

// release gives back what was not published. A lease that was lost meanwhile is
// no loss here: the event is with another relay.
func (s *settlement) release(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	n, err := s.queries.ReleaseEvents(ctx, s.tx, ReleaseEventsParams{
		EventIds: keys, Owner: s.owner, Token: s.token,
	})
	if err != nil {
		return fmt.Errorf("release events: %w", err)
	}
	s.result.Released = int(n)
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
