package outbox_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// memStore is an outbox in memory, with row leases by the (fake) clock.
type memStore struct {
	mu     sync.Mutex
	rows   []*memRow
	token  int64
	claims []outbox.ClaimRequest

	claimErr  func() error // asked before each claim
	settleErr func() error // asked before each settle
	settles   int
	released  []outbox.Owner
}

type memRow struct {
	event     outbox.Event
	state     string
	due       time.Time
	owner     string
	token     int64
	lastError string
}

func newMemStore(n int) *memStore {
	s := &memStore{}
	for i := range n {
		s.add(fmt.Sprint(i))
	}
	return s
}

func (s *memStore) add(aggregate string) string {
	id := outbox.NewEventID()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows = append(s.rows, &memRow{
		state: "pending",
		due:   time.Now(),
		event: outbox.Event{Key: id.String(), Envelope: outbox.Envelope{ID: id, Type: "test.happened", AggregateID: aggregate}},
	})
	return id.String()
}

func (s *memStore) Claim(_ context.Context, c outbox.ClaimRequest) (*outbox.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims = append(s.claims, c)
	if s.claimErr != nil {
		if err := s.claimErr(); err != nil {
			return nil, err
		}
	}
	s.token++
	b := &outbox.Batch{Owner: c.Owner, Token: s.token}
	byDue := slices.SortedStableFunc(slices.Values(s.rows), func(a, b *memRow) int { return a.due.Compare(b.due) })
	for _, row := range byDue {
		if len(b.Events) == c.Limit || row.state != "pending" || row.due.After(time.Now()) {
			continue
		}
		row.owner, row.token, row.due = c.Owner.ID.String(), s.token, time.Now().Add(c.Lease)
		b.Events = append(b.Events, row.event)
	}
	return b, nil
}

func (s *memStore) Settle(_ context.Context, b *outbox.Batch, outcomes []outbox.EventOutcome) (outbox.Settlement, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settles++
	if s.settleErr != nil {
		if err := s.settleErr(); err != nil {
			return outbox.Settlement{}, err
		}
	}
	var result outbox.Settlement
	for _, o := range outcomes {
		row := s.find(o.Key)
		if o.Kind == outbox.OutcomeUnknown {
			continue
		}
		if row.state != "pending" || row.owner != b.Owner.ID.String() || row.token != b.Token {
			result.Lost = append(result.Lost, o.Key)
			continue
		}
		switch o.Kind {
		case outbox.OutcomePublished:
			row.state = "published"
			result.Published++
		case outbox.OutcomeReleased:
			row.owner, row.due = "", time.Now().Add(o.Backoff)
			result.Released++
		case outbox.OutcomeRetry:
			row.owner, row.due, row.lastError = "", time.Now().Add(o.Backoff), o.Reason
			row.event.Attempts++
			result.Retried++
		case outbox.OutcomeDead:
			row.state, row.lastError = "dead", o.Reason
			row.event.Attempts++
			result.Dead++
		}
	}
	return result, nil
}

func (s *memStore) Renew(context.Context, *outbox.Batch, time.Duration) (int, error) { return 0, nil }

func (s *memStore) Release(_ context.Context, o outbox.Owner) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = append(s.released, o)
	return nil
}

func (s *memStore) Backlog(context.Context) (outbox.Backlog, error) {
	return outbox.Backlog{Waiting: s.count("pending")}, nil
}

func (s *memStore) find(key string) *memRow {
	i := slices.IndexFunc(s.rows, func(r *memRow) bool { return r.event.Key == key })
	return s.rows[i]
}

func (s *memStore) row(key string) memRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.find(key)
}

func (s *memStore) count(state string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, row := range s.rows {
		if row.state == state {
			n++
		}
	}
	return n
}

// publisherFunc answers for one message at a time.
type publisherFunc func(ctx context.Context, e outbox.Envelope) error

func (f publisherFunc) Publish(ctx context.Context, messages []outbox.Envelope) []error {
	results := make([]error, len(messages))
	for i, m := range messages {
		results[i] = f(ctx, m)
	}
	return results
}
