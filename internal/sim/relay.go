package sim

import (
	"context"
	"hash/crc32"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/sim/fakemysql"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func (w *world) relayConfig() *outbox.RelayConfig {
	return &outbox.RelayConfig{
		BatchSize: w.plan.Batch, MaxBatches: w.plan.InFlight, Lease: lease, PublishTimeout: publishTimeout, LeaseMargin: time.Second,
		PollInterval: poll, MaxAttempts: 1000, RetryBackoff: 200 * time.Millisecond, RetryBackoffMax: backoffMax,
		OutageBackoffMax: backoffMax, Logger: w.log,
	}
}

func (w *world) runRelay(a *actor) {
	store := &shadowStore{Store: w.variant.newStore(a.db), w: w, role: a.role, versions: map[int64]int64{}, claimed: map[*outbox.Batch]map[string]int64{}}
	relay, err := outbox.NewRelay(store, &publisher{a}, w.relayConfig())
	if err == nil {
		err = relay.Run(a.ctx)
	}
	if err != nil {
		w.rec.broken("a relay ended: " + err.Error())
	}
}

// shadowStore notes, beside a store, which leases its batches are under.
type shadowStore struct {
	outbox.Store
	w    *world
	role string

	mu       sync.Mutex
	versions map[int64]int64 // of the lanes, as the database has leased them to this process
	claimed  map[*outbox.Batch]map[string]int64
}

// Check implements outbox.Checker.
func (s *shadowStore) Check(ctx context.Context) error {
	return s.Store.(outbox.Checker).Check(ctx)
}

// Wakes implements outbox.Waker.
func (s *shadowStore) Wakes() (<-chan struct{}, func()) { return s.Store.(outbox.Waker).Wakes() }

// Claim implements outbox.Store.
func (s *shadowStore) Claim(ctx context.Context, c outbox.ClaimRequest) (*outbox.Batch, error) {
	b, err := s.Store.Claim(fakemysql.WithNote(ctx, &claimNote{s}), c)
	if err != nil || b == nil || len(b.Events) == 0 {
		return b, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	leases := make(map[string]int64, len(b.Events))
	for _, e := range b.Events {
		if s.w.plan.Rows {
			leases[e.Key] = b.Token
		} else {
			leases[e.Key] = s.versions[laneOf(e.Envelope)]
		}
	}
	s.claimed[b] = leases
	return b, nil
}

func laneOf(e outbox.Envelope) int64 {
	return int64(crc32.ChecksumIEEE([]byte(e.AggregateType+e.AggregateID)) % 64)
}

// claimNote takes down what a claim has leased.
type claimNote struct{ store *shadowStore }

// Tag tells what is done at once by one process apart.
func (*claimNote) Tag() string { return "claim" }

func (n *claimNote) leased(lane, version int64) {
	n.store.mu.Lock()
	defer n.store.mu.Unlock()
	n.store.versions[lane] = version
}

// settleNote says under which leases events are settled.
type settleNote struct {
	role   string
	owner  string
	first  string
	leases map[string]int64
}

// Tag tells what is done at once by one process apart.
func (n *settleNote) Tag() string { return "settle " + n.first }

// Settle implements outbox.Store.
func (s *shadowStore) Settle(ctx context.Context, b *outbox.Batch, outcomes []outbox.EventOutcome) (outbox.Settlement, error) {
	s.mu.Lock()
	leases := s.claimed[b]
	s.mu.Unlock()
	ctx = fakemysql.WithNote(ctx, &settleNote{s.role, b.Owner.ID.String(), b.Events[0].Key, leases})
	settled, err := s.Store.Settle(ctx, b, outcomes)
	if err == nil {
		for _, key := range settled.Lost {
			s.w.rec.refused(s.role, key)
		}
	}
	return settled, err
}

// Renew implements outbox.Store.
func (s *shadowStore) Renew(ctx context.Context, b *outbox.Batch, length time.Duration) (int, error) {
	return s.Store.Renew(fakemysql.WithNote(ctx, renewNote(b.Events[0].Key)), b, length)
}

// renewNote is of a renewal.
type renewNote string

// Tag tells what is done at once by one process apart.
func (n renewNote) Tag() string { return "renew " + string(n) }

// publisher is a process's way to the broker.
type publisher struct{ a *actor }

// Publish implements outbox.Publisher.
func (p *publisher) Publish(ctx context.Context, messages []outbox.Envelope) []error {
	w := p.a.w
	if p.a.goOn() != nil {
		return all(len(messages), outbox.PublishUnknown(errDead))
	}
	first := messages[0].ID.String()
	if w.explorer == nil {
		time.Sleep(time.Duration(1 + w.mix(0, "PUBLISH", first)%1000)) // as at the points
	}
	f, _ := w.triggered(p.a.role, "PUBLISH", func(f Fault) bool { return f.Op == "PUBLISH" })
	results := p.publish(ctx, messages, first, f)
	if p.a.goOn() != nil {
		results = all(len(messages), outbox.PublishUnknown(errDead))
	}
	w.rec.published(p.a.role, messages, results)
	return results
}

func (p *publisher) publish(ctx context.Context, messages []outbox.Envelope, first string, f Fault) []error {
	w := p.a.w
	unknown := all(len(messages), outbox.PublishUnknown(errCut))
	switch f.Action {
	case CutRequest:
		return unknown
	case SilentRequest:
		<-ctx.Done()
		return unknown
	case Late: // the first one may arrive when nobody waits for it any more
		late := make(chan []error, 1)
		w.running.Go(func() {
			if sleep(w.ctx, f.For) {
				late <- w.broker.Publish(context.WithoutCancel(ctx), messages[:1])
			}
		})
		select {
		case results := <-late:
			return append(results, all(len(messages)-1, outbox.PublishHeldBack(errCut))...)
		case <-ctx.Done():
			return append(unknown[:1:1], all(len(messages)-1, outbox.PublishHeldBack(errCut))...)
		}
	}
	sleep(ctx, w.delay(p.a.role, "publish", first))
	results := w.broker.Publish(ctx, messages)
	sleep(ctx, w.delay(p.a.role, "confirm", first))
	switch f.Action {
	case CutReply:
		return unknown
	case SilentReply:
		<-ctx.Done()
		return unknown
	}
	return results
}

func all(n int, err error) []error {
	out := make([]error, n)
	for i := range out {
		out[i] = err
	}
	return out
}

func (r *recorder) published(relay string, messages []outbox.Envelope, results []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, e := range messages {
		p := history.Publish{EventID: e.ID, Aggregate: e.AggregateType + "/" + e.AggregateID, Version: e.AggregateVersion, Relay: relay, Confirmed: results[i] == nil}
		if results[i] != nil {
			p.Kind = outbox.FailureKindOf(results[i]).String()
		} else if _, ok := r.firstConfirm[e.ID]; !ok {
			r.firstConfirm[e.ID] = time.Now()
		}
		r.history.Published = append(r.history.Published, p)
	}
}

func parseID(s string) uuid.UUID {
	id, err := uuid.Parse(s)
	if err != nil {
		panic(err)
	}
	return id
}
