package outboxtest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/record"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// relayActor is a relay whose calls of the store and the broker are watched.
type relayActor struct {
	*actor

	// dieConfirmed lets it die when the broker has confirmed, before the mark.
	dieConfirmed bool

	// pause, when set, lets it stand still between confirm and mark: paused is closed
	// when it does, and it goes on when resume is closed. marked is closed after the mark.
	pause                  bool
	paused, resume, marked chan struct{}

	mu     sync.Mutex
	leased map[*outbox.Batch]time.Time // when the lease began, or was last renewed
}

func (v *verification) newRelay(ctx context.Context, name string) (*relayActor, error) {
	a, err := v.newActor(ctx, name)
	if err != nil {
		return nil, err
	}
	return &relayActor{
		actor: a, leased: map[*outbox.Batch]time.Time{},
		paused: make(chan struct{}), resume: make(chan struct{}), marked: make(chan struct{}),
	}, nil
}

func (r *relayActor) start() error {
	relay, err := outbox.NewRelay(&watchedStore{r.v.cfg.NewStore(r.db), r}, watchedPublisher{r}, &outbox.RelayConfig{
		Lease: r.v.cfg.Lease, PublishTimeout: r.v.cfg.Lease / 2, PollInterval: 50 * time.Millisecond,
		OutageBackoffMax: time.Second, RetryBackoffMax: time.Second, Logger: r.v.log.logger(),
	})
	if err != nil {
		return err
	}
	r.running.Go(func() {
		if err := relay.Run(r.ctx); err != nil && r.ctx.Err() == nil {
			r.v.noteRelayError("run", err)
		}
	})
	return nil
}

// freeze waits while the relay stands still.
func (r *relayActor) freeze() {
	select {
	case <-r.paused:
		<-r.resume
	default:
	}
}

// watchedPublisher tells what the broker said.
type watchedPublisher struct{ *relayActor }

func (p watchedPublisher) Publish(ctx context.Context, messages []outbox.Envelope) []error {
	p.freeze()
	if p.dead.Load() {
		return slices.Repeat([]error{outbox.PublishUnavailable(errDead)}, len(messages))
	}
	results := p.v.cfg.Publisher.Publish(ctx, messages)
	var confirmed []uuid.UUID
	for i, m := range messages {
		entry := history.Publish{EventID: m.ID, Aggregate: aggregateOf(m), Version: m.AggregateVersion, Relay: p.name}
		if i < len(results) && results[i] == nil {
			entry.Confirmed = true
			confirmed = append(confirmed, m.ID)
		} else {
			entry.Kind = outbox.FailureUnknown.String()
			if i < len(results) {
				entry.Kind = outbox.FailureKindOf(results[i]).String()
				p.v.noteRelayError("publish", results[i])
			}
			if ctx.Err() != nil { // it took too long by itself
				p.v.fault(fault.RelaySent, record.OutcomeDelay, m.ID)
			}
		}
		p.v.note(func(h *history.History) { h.Published = append(h.Published, entry) })
		if entry.Confirmed && p.v.broker == nil {
			p.v.noteMessage(m)
		}
	}
	if p.dieConfirmed && confirmed != nil {
		p.v.fault(fault.RelayConfirmed, record.OutcomeKill, confirmed...)
		p.die()
	}
	return results
}

// watchedStore tells what the relay marks.
type watchedStore struct {
	outbox.Store
	*relayActor
}

var _ outbox.Checker = (*watchedStore)(nil)

// Check implements outbox.Checker for a store that does.
func (s *watchedStore) Check(ctx context.Context) error {
	if c, ok := s.Store.(outbox.Checker); ok {
		return c.Check(ctx)
	}
	return nil
}

func (s *watchedStore) Claim(ctx context.Context, c outbox.ClaimRequest) (*outbox.Batch, error) {
	s.freeze()
	before := time.Now()
	b, err := s.Store.Claim(ctx, c)
	switch {
	case err != nil && ctx.Err() == nil:
		s.v.noteRelayError("claim", err)
	case err == nil && b != nil:
		s.renewed(b, before)
		s.v.noteClaimed(b)
	}
	return b, err
}

func (s *watchedStore) Renew(ctx context.Context, b *outbox.Batch, lease time.Duration) (int, error) {
	s.freeze()
	before := time.Now()
	n, err := s.Store.Renew(ctx, b, lease)
	if err == nil && n == len(b.Events) {
		s.renewed(b, before)
	}
	return n, err
}

func (s *watchedStore) renewed(b *outbox.Batch, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leased[b] = at
}

func (s *watchedStore) Settle(ctx context.Context, b *outbox.Batch, outcomes []outbox.EventOutcome) (outbox.Settlement, error) {
	if s.dead.Load() {
		return outbox.Settlement{}, errDead
	}
	if s.pause {
		s.pause = false
		close(s.paused)
		<-s.resume
		ctx = context.WithoutCancel(ctx) // its clock has stood still, too
		defer close(s.marked)
	} else {
		s.noteStall(b)
	}
	before := s.v.marksOf(ctx, b)
	result, err := s.Store.Settle(ctx, b, outcomes)
	if err != nil {
		s.v.noteRelayError("mark", err)
		return result, err
	}
	s.v.noteMarks(ctx, s.name, b, outcomes, result, before)
	return result, nil
}

// noteStall tells of a lease that ran out without an injection, as on a machine that
// had no time for it: then a repeat is no fault of anybody's.
func (s *watchedStore) noteStall(b *outbox.Batch) {
	s.mu.Lock()
	at, known := s.leased[b]
	s.mu.Unlock()
	if known && time.Since(at) > s.v.cfg.Lease {
		s.v.fault(fault.RelayOverdue, record.OutcomeDelay, batchIDs(b)...)
	}
}

func batchIDs(b *outbox.Batch) []uuid.UUID {
	ids := make([]uuid.UUID, len(b.Events))
	for i, e := range b.Events {
		ids[i] = e.Envelope.ID
	}
	return ids
}

func aggregateOf(e outbox.Envelope) string { return e.AggregateType + "/" + e.AggregateID }
