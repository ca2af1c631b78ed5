package outbox_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// memStore is an outbox in memory, with row leases by the (fake) clock. It notes
// what the relay does against the Store's contract; startRelay fails the test for it.
type memStore struct {
	ordered bool // an event whose aggregate has an earlier one that waits isn't claimed

	// Asked before each call, without a lock: they may block.
	claimErr  func() error
	settleErr func(n int) error // n: which call it is, from 1
	renewErr  func() error

	grant    func(asked time.Duration) time.Duration // the length of a claim's lease; as asked when nil
	noUntil  bool                                    // Batch.Until is left out
	renewals []time.Time                             // that were done

	mu          sync.Mutex
	rows        []*memRow
	byKey       map[string]*memRow
	token       int64
	claims      []outbox.ClaimRequest
	claimedAt   []time.Time // by claim
	inFlight    map[int64]bool
	maxInFlight int
	busy        map[int64]string // calls under way, by batch
	settles     int
	settled     map[int64]bool
	released    []outbox.Owner
	violations  []string
}

type memRow struct {
	event     outbox.Event
	state     string
	due       time.Time
	owner     uuid.UUID
	token     int64
	lastError string
}

func newMemStore(n int) *memStore {
	s := &memStore{
		byKey:    map[string]*memRow{},
		inFlight: map[int64]bool{},
		busy:     map[int64]string{},
		settled:  map[int64]bool{},
	}
	for i := range n {
		s.add(fmt.Sprint(i))
	}
	return s
}

func (s *memStore) add(aggregate string) string {
	id := outbox.NewEventID()
	s.mu.Lock()
	defer s.mu.Unlock()
	row := &memRow{
		state: "pending",
		due:   time.Now(),
		event: outbox.Event{Key: id.String(), Envelope: outbox.Envelope{
			ID: id, Type: "test.happened", AggregateType: "test", AggregateID: aggregate,
			AggregateVersion: int64(len(s.rows)), // rises within each aggregate
		}},
	}
	s.rows = append(s.rows, row)
	s.byKey[row.event.Key] = row
	return row.event.Key
}

func (s *memStore) Claim(ctx context.Context, c outbox.ClaimRequest) (*outbox.Batch, error) {
	s.mu.Lock()
	s.claims = append(s.claims, c)
	s.claimedAt = append(s.claimedAt, time.Now())
	s.mu.Unlock()
	if s.claimErr != nil {
		if err := s.claimErr(); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lease := c.Lease
	if s.grant != nil {
		lease = s.grant(lease)
	}
	s.token++
	b := &outbox.Batch{Owner: c.Owner, Token: s.token, Ordered: s.ordered}
	if !s.noUntil {
		b.Until = time.Now().Add(lease)
	}
	for _, row := range s.due() {
		if len(b.Events) == c.Limit {
			break
		}
		row.owner, row.token, row.due = c.Owner.ID, s.token, time.Now().Add(lease)
		b.Events = append(b.Events, row.event)
	}
	if len(b.Events) > 0 {
		s.inFlight[b.Token] = true
		s.maxInFlight = max(s.maxInFlight, len(s.inFlight))
	}
	return b, nil
}

// due returns the rows that may be claimed, in order.
func (s *memStore) due() []*memRow {
	var out []*memRow
	if s.ordered {
		waits := map[string]bool{}
		for _, row := range s.rows {
			id := row.event.Envelope.AggregateID
			switch {
			case row.state != "pending" || waits[id]:
			case row.due.After(time.Now()):
				waits[id] = true
			default:
				out = append(out, row)
			}
		}
		return out
	}
	for _, row := range s.rows {
		if row.state == "pending" && !row.due.After(time.Now()) {
			out = append(out, row)
		}
	}
	slices.SortStableFunc(out, func(a, b *memRow) int { return a.due.Compare(b.due) })
	return out
}

// enter notes the beginning of a call for a batch.
func (s *memStore) enter(b *outbox.Batch, call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.busy[b.Token]; other != "" {
		s.violations = append(s.violations, fmt.Sprintf("%s of batch %d during its %s", call, b.Token, other))
	}
	if s.settled[b.Token] {
		s.violations = append(s.violations, fmt.Sprintf("%s of batch %d after it was settled", call, b.Token))
	}
	s.busy[b.Token] = call
}

func (s *memStore) leave(b *outbox.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, b.Token)
}

func (s *memStore) Settle(ctx context.Context, b *outbox.Batch, outcomes []outbox.EventOutcome) (outbox.Settlement, error) {
	s.enter(b, "settle")
	defer s.leave(b)
	s.mu.Lock()
	s.settles++
	n := s.settles
	if len(outcomes) != len(b.Events) {
		s.violations = append(s.violations, fmt.Sprintf("%d outcomes of %d events", len(outcomes), len(b.Events)))
	}
	s.mu.Unlock()
	if s.settleErr != nil {
		if err := s.settleErr(n); err != nil {
			return outbox.Settlement{}, err
		}
	}
	if ctx.Err() != nil {
		return outbox.Settlement{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled[b.Token] = true
	delete(s.inFlight, b.Token)
	var result outbox.Settlement
	for _, o := range outcomes {
		s.settle(b, o, &result)
	}
	return result, nil
}

func (s *memStore) settle(b *outbox.Batch, o outbox.EventOutcome, result *outbox.Settlement) {
	row := s.byKey[o.Key]
	if o.Kind == outbox.OutcomeUnknown {
		return
	}
	if !s.holds(b, row) {
		result.Lost = append(result.Lost, o.Key)
		return
	}
	switch o.Kind {
	case outbox.OutcomePublished:
		row.state = "published"
		result.Published++
	case outbox.OutcomeReleased:
		row.owner, row.due = uuid.Nil, time.Now().Add(o.Backoff)
		result.Released++
	case outbox.OutcomeRetry:
		row.owner, row.due, row.lastError = uuid.Nil, time.Now().Add(o.Backoff), o.Reason
		row.event.Attempts++
		result.Retried++
	case outbox.OutcomeDead:
		row.state, row.lastError = "dead", o.Reason
		row.event.Attempts++
		result.Dead++
	}
}

// holds reports whether the row's lease is the batch's.
func (s *memStore) holds(b *outbox.Batch, row *memRow) bool {
	return row.state == "pending" && row.owner == b.Owner.ID && row.token == b.Token
}

func (s *memStore) Renew(ctx context.Context, b *outbox.Batch, lease time.Duration) (int, error) {
	s.enter(b, "renew")
	defer s.leave(b)
	if s.renewErr != nil {
		if err := s.renewErr(); err != nil {
			return 0, err
		}
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewals = append(s.renewals, time.Now())
	n := 0
	for _, e := range b.Events {
		if row := s.byKey[e.Key]; s.holds(b, row) {
			row.due = time.Now().Add(lease)
			n++
		}
	}
	return n, nil
}

// steal gives a row to another relay.
func (s *memStore) steal(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row := s.byKey[key]
	row.owner, row.token, row.due = outbox.NewEventID(), 99, time.Now().Add(time.Hour)
}

func (s *memStore) Release(_ context.Context, o outbox.Owner) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = append(s.released, o)
	return nil
}

func (s *memStore) Backlog(context.Context) (outbox.Backlog, error) {
	return outbox.Backlog{Waiting: s.count("pending")}, nil
}

func (s *memStore) row(key string) memRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.byKey[key]
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

// counts returns the numbers of claims and renewals so far.
func (s *memStore) counts() (claims, renewals int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.claims), len(s.renewals)
}

func (s *memStore) attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, row := range s.rows {
		n += row.event.Attempts
	}
	return n
}

func (s *memStore) broken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}
