package rowlease

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Store implements outbox.Store with a lease in every row. Use the generated
// NewStore to make one.
type Store struct {
	db      *outbox.DB
	queries Queries
	source  string

	token atomic.Int64 // the last claim's; with the owner's id it names a lease
	size  claimSize

	mu        sync.Mutex
	keepAlive map[uuid.UUID]time.Time // when an owner's outbox_relay row is to be renewed
}

var _ outbox.Store = (*Store)(nil)

// New returns a store that names source as the producer of its events.
func New(db *outbox.DB, source string, queries Queries) *Store {
	return &Store{db: db, queries: queries, source: source, keepAlive: map[uuid.UUID]time.Time{}}
}

// claimIsolation is what every transaction of the store runs at. At REPEATABLE
// READ, MySQL's default, the claim of an empty outbox takes a gap lock that makes
// every writer wait.
var claimIsolation = &sql.TxOptions{Isolation: sql.LevelReadCommitted}

// Claim implements outbox.Store. It locks due rows, skipping those that others
// have locked, and leases them, in one short transaction. A leased row is due
// again when its lease ends, so that nothing has to look for expired leases.
func (s *Store) Claim(ctx context.Context, c outbox.ClaimRequest) (*outbox.Batch, error) {
	if err := s.registerOwner(ctx, c.Owner, c.Lease); err != nil {
		return nil, err
	}
	batch := &outbox.Batch{Owner: c.Owner, Token: s.token.Add(1)}
	var due []DueEvent
	_, err := outbox.InTxWith(ctx, s.db, claimIsolation, func(tx *outbox.Tx) error {
		var err error
		due, err = s.queries.SelectDueEvents(ctx, tx, SelectDueEventsParams{Limit: s.size.limit(c)})
		if err != nil {
			return fmt.Errorf("select due events: %w", err)
		}
		if len(due) == 0 {
			return nil
		}
		leased, err := s.queries.LeaseEvents(ctx, tx, LeaseEventsParams{
			Owner:    c.Owner.ID.String(),
			Token:    batch.Token,
			LeaseUs:  c.Lease.Microseconds(),
			EventIds: dueIDs(due),
		})
		if err != nil {
			return fmt.Errorf("lease events: %w", err)
		}
		// SKIP LOCKED is no fence by itself: some servers parse it and ignore it.
		if leased != int64(len(due)) {
			return fmt.Errorf("lease events: %d rows were locked and %d leased", len(due), leased)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	largest := 0
	batch.Events = make([]outbox.Event, len(due))
	for i, row := range due {
		batch.Events[i] = s.event(row)
		largest = max(largest, len(row.Payload))
	}
	s.size.seen(len(due), largest)
	return batch, nil
}

func (s *Store) event(row DueEvent) outbox.Event {
	event := outbox.Event{
		Key:      row.EventID,
		Attempts: int(row.Attempts),
		Envelope: outbox.Envelope{
			Source:           s.source,
			Type:             row.EventType,
			AggregateType:    row.AggregateType,
			AggregateID:      row.AggregateID,
			AggregateVersion: row.EventVersion,
			SchemaVersion:    int(row.SchemaVersion),
			Time:             time.UnixMicro(row.CreatedUs).UTC(),
			Data:             row.Payload,
		},
	}
	var err error
	if event.Envelope.ID, err = outbox.ParseEventID(row.EventID); err != nil {
		event.Invalid = err
	}
	if len(row.Headers) > len("{}") {
		if err := json.Unmarshal(row.Headers, &event.Envelope.Headers); err != nil {
			event.Invalid = errors.New("the headers are not an object of strings")
		}
	}
	return event
}

// Renew implements outbox.Store.
func (s *Store) Renew(ctx context.Context, b *outbox.Batch, lease time.Duration) (int, error) {
	n, err := s.queries.RenewLeases(ctx, s.db, RenewLeasesParams{
		LeaseUs:  lease.Microseconds(),
		EventIds: batchIDs(b),
		Owner:    b.Owner.ID.String(),
		Token:    b.Token,
	})
	if err != nil {
		return 0, fmt.Errorf("renew leases: %w", err)
	}
	return int(n), nil
}

// Release implements outbox.Store.
func (s *Store) Release(ctx context.Context, owner outbox.Owner) error {
	s.mu.Lock()
	delete(s.keepAlive, owner.ID)
	s.mu.Unlock()
	if err := s.queries.EndRelay(ctx, s.db, EndRelayParams{Owner: owner.ID.String()}); err != nil {
		return fmt.Errorf("end relay: %w", err)
	}
	return nil
}

// Backlog implements outbox.Store.
func (s *Store) Backlog(ctx context.Context) (outbox.Backlog, error) {
	w, err := s.queries.CountWaiting(ctx, s.db)
	if err != nil {
		return outbox.Backlog{}, fmt.Errorf("count waiting events: %w", err)
	}
	return outbox.Backlog{
		Waiting:   int(w.Waiting),
		OldestDue: max(0, time.Duration(w.OldestUs)*time.Microsecond),
	}, nil
}

// registerOwner keeps the owner's row in outbox_relay, which tells people where
// the owner of a lease runs. It is written at the first claim and then once a lease.
func (s *Store) registerOwner(ctx context.Context, o outbox.Owner, lease time.Duration) error {
	now := time.Now()
	s.mu.Lock()
	due, known := s.keepAlive[o.ID]
	s.mu.Unlock()
	if known && now.Before(due) {
		return nil
	}
	err := s.queries.KeepRelayAlive(ctx, s.db, KeepRelayAliveParams{
		Owner: o.ID.String(), Host: o.Host, Pid: int64(o.PID), AliveUs: (2 * lease).Microseconds(),
	})
	if err != nil {
		return fmt.Errorf("register relay: %w", err)
	}
	s.mu.Lock()
	s.keepAlive[o.ID] = now.Add(lease)
	s.mu.Unlock()
	return nil
}

func dueIDs(due []DueEvent) []string {
	ids := make([]string, len(due))
	for i := range due {
		ids[i] = due[i].EventID
	}
	return ids
}

func batchIDs(b *outbox.Batch) []string {
	ids := make([]string, len(b.Events))
	for i := range b.Events {
		ids[i] = b.Events[i].Key
	}
	return ids
}
