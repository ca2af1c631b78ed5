package outbox_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// What the relay itself costs an event: store and publisher do nothing.
func BenchmarkRelay(b *testing.B) {
	events := make([]outbox.Event, 500)
	for i := range events {
		id := outbox.NewEventID()
		events[i] = outbox.Event{Key: id.String(), Envelope: outbox.Envelope{ID: id, AggregateType: "test", AggregateID: id.String()}}
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	store := &endlessStore{events: events, stop: cancel}
	store.left.Store(int64(b.N))
	r, err := outbox.NewRelay(store, confirmAll, &outbox.RelayConfig{Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	if err := r.Run(ctx); err != nil {
		b.Fatal(err)
	}
}

// endlessStore leases the same events until so many are settled.
type endlessStore struct {
	events []outbox.Event
	left   atomic.Int64
	stop   context.CancelFunc
}

func (s *endlessStore) Claim(_ context.Context, c outbox.ClaimRequest) (*outbox.Batch, error) {
	return &outbox.Batch{Owner: c.Owner, Until: time.Now().Add(c.Lease), Events: s.events}, nil
}

func (s *endlessStore) Settle(_ context.Context, b *outbox.Batch, o []outbox.EventOutcome) (outbox.Settlement, error) {
	if s.left.Add(-int64(len(o))) <= 0 {
		s.stop()
	}
	return outbox.Settlement{Published: len(o)}, nil
}

func (*endlessStore) Renew(_ context.Context, b *outbox.Batch, _ time.Duration) (int, error) {
	return len(b.Events), nil
}

func (*endlessStore) Release(context.Context, outbox.Owner) error { return nil }

func (*endlessStore) Backlog(context.Context) (outbox.Backlog, error) { return outbox.Backlog{}, nil }
