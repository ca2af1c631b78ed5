// Package lanelease is the outbox.Store of `ordering: aggregate`. Every event
// belongs to a lane, by a hash of its aggregate, and a relay leases lanes: what is
// in one of its lanes no other relay publishes. A lane's events are read in order
// and are all in one batch at a time, so that an aggregate's events keep their order.
package lanelease

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/internal/leasing"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Store implements outbox.Store with leases of lanes. Use the generated NewStore
// to make one.
type Store struct {
	db      *outbox.DB
	queries Queries
	cfg     Config

	size   leasing.ClaimSize
	relays leasing.Relays
	pauses leasing.Pauses

	mu   sync.Mutex
	runs map[uuid.UUID]*run
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
	Lanes           int    // how many there are
	DeletePublished bool   // MarkPublished deletes
}

func (c Config) origin() leasing.Origin {
	return leasing.Origin{Source: c.Source, SchemaBase: c.SchemaBase}
}

// New returns a store of db's events.
func New(db *outbox.DB, queries Queries, cfg Config) *Store {
	return &Store{db: db, queries: queries, cfg: cfg, runs: map[uuid.UUID]*run{}}
}

// run returns what is known of an owner.
func (s *Store) run(o outbox.Owner) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.runs[o.ID]
	if !ok {
		r = newRun(o, s.cfg.Lanes)
		s.runs[o.ID] = r
	}
	return r
}

// Release implements outbox.Store: it gives the owner's lanes back, but for those
// of a batch that was never settled.
func (s *Store) Release(ctx context.Context, owner outbox.Owner) error {
	r := s.run(owner)
	s.mu.Lock()
	delete(s.runs, owner.ID)
	s.mu.Unlock()
	if lanes := r.forgetAll(); len(lanes) > 0 {
		if err := s.releaseLanes(ctx, r, lanes); err != nil {
			return err
		}
	}
	return s.relays.End(ctx, s.db, s.queries, owner)
}

func (s *Store) releaseLanes(ctx context.Context, r *run, lanes []uint16) error {
	_, err := s.queries.ReleaseLanes(ctx, s.db, ReleaseLanesParams{Lanes: lanes, Owner: r.id})
	if err != nil {
		return fmt.Errorf("release lanes: %w", err)
	}
	return nil
}

// Backlog implements outbox.Store.
func (s *Store) Backlog(ctx context.Context) (outbox.Backlog, error) {
	return leasing.Backlog(ctx, s.db, s.queries)
}

// Check implements outbox.Checker.
func (s *Store) Check(ctx context.Context) error { return leasing.Check(ctx, s.db, s.queries) }

// Wakes implements outbox.Waker.
func (s *Store) Wakes() (<-chan struct{}, func()) { return s.db.Wakes() }
