package rowlease

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/runtime/internal/leasing"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Store implements outbox.Store with a lease in every row. Use the generated
// NewStore to make one.
type Store struct {
	db      *outbox.DB
	queries Queries
	cfg     Config

	token  atomic.Int64 // the last claim's; with the owner's id it names a lease
	size   leasing.ClaimSize
	relays leasing.Relays
	pauses leasing.Pauses
}

var (
	_ outbox.Store   = (*Store)(nil)
	_ outbox.Checker = (*Store)(nil)
	_ outbox.Waker   = (*Store)(nil)
)

// Config is what the generator knows of an outbox.
type Config struct {
	Source          string // who produces the events
	SchemaBase      string // URL below which the schemas of their payloads are; none when empty
	DeletePublished bool   // MarkPublished deletes
}

func (c Config) origin() leasing.Origin {
	return leasing.Origin{Source: c.Source, SchemaBase: c.SchemaBase}
}

// New returns a store of db's events.
func New(db *outbox.DB, queries Queries, cfg Config) *Store {
	return &Store{db: db, queries: queries, cfg: cfg}
}

// Claim implements outbox.Store. It locks due rows, skipping those that others
// have locked, and leases them, in one short transaction. A leased row is due
// again when its lease ends, so that nothing has to look for expired leases.
func (s *Store) Claim(ctx context.Context, c outbox.ClaimRequest) (*outbox.Batch, error) {
	if _, err := s.relays.KeepAlive(ctx, s.db, s.queries, c.Owner, c.Lease); err != nil {
		return nil, err
	}
	hold, err := s.pauses.Look(ctx, s.db, s.queries)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	if hold != nil {
		return &outbox.Batch{Owner: c.Owner, Hold: hold}, nil
	}
	batch := &outbox.Batch{Owner: c.Owner, Token: s.token.Add(1), Until: time.Now().Add(c.Lease)}
	var due []DueEvent
	_, err = outbox.InTxWith(fault.In(ctx, fault.Claim), s.db, leasing.Isolation, func(tx *outbox.Tx) error {
		var err error
		due, err = s.queries.SelectDueEvents(ctx, tx, SelectDueEventsParams{Limit: s.size.Limit(c)})
		if err != nil {
			return fmt.Errorf("select due events: %w", err)
		}
		if len(due) == 0 {
			return nil
		}
		if err := fault.At(ctx, fault.RelaySelected); err != nil {
			return err
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
		return fault.At(ctx, fault.RelayLeased)
	})
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	largest := 0
	batch.Events = make([]outbox.Event, len(due))
	for i, row := range due {
		batch.Events[i] = leasing.NewEvent(row, s.cfg.origin())
		largest = max(largest, len(row.Payload))
	}
	s.size.Seen(len(due), largest)
	return batch, nil
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
	return s.relays.End(ctx, s.db, s.queries, owner)
}

// Backlog implements outbox.Store.
func (s *Store) Backlog(ctx context.Context) (outbox.Backlog, error) {
	return leasing.Backlog(ctx, s.db, s.queries)
}

// Check implements outbox.Checker.
func (s *Store) Check(ctx context.Context) error { return leasing.Check(ctx, s.db, s.queries) }

// Wakes implements outbox.Waker.
func (s *Store) Wakes() (<-chan struct{}, func()) { return s.db.Wakes() }

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
