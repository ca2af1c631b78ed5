package integration

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest"
)

// shortLease lets a test see the end of a lease.
var shortLease = &outbox.RelayConfig{
	Lease: 3 * time.Second, PublishTimeout: time.Second, LeaseMargin: 500 * time.Millisecond, PollInterval: 50 * time.Millisecond,
}

// A consumer learns why a duplicate came.
func TestDuplicatesHaveACause(t *testing.T) {
	eachKind(t, keptKinds, func(t *testing.T, k kind, _ dbtest.Database, db *outbox.DB) {
		handled, consumer := observedConsumer(db)
		broker := outboxtest.NewBroker(outboxtest.BrokerConfig{})
		run(t, func(ctx context.Context) error { return broker.Subscribe(ctx, consumer) }, broker.Close)

		// A relay that dies between confirm and mark.
		dead := k.writeEvents(t, db, 1, 1)[0]
		b := claimN(t, k.newStore(db), outbox.Owner{ID: outbox.NewEventID(), Host: "dead"}, 10)
		if len(b.Events) != 1 || broker.Publish(t.Context(), []outbox.Envelope{b.Events[0].Envelope})[0] != nil {
			t.Fatalf("%d events claimed, or not published", len(b.Events))
		}
		wantHandled(t, handled, dead, outbox.Applied, "")
		k.expire(t, db)
		relay, err := outbox.NewRelay(k.newStore(db), broker, shortLease)
		if err != nil {
			t.Fatal(err)
		}
		run(t, relay.Run, nil)
		wantHandled(t, handled, dead, outbox.Duplicate, outbox.RepeatLeaseExpired)

		// A confirm that doesn't arrive.
		broker.LoseConfirms(1)
		lost := k.writeEvents(t, db, 2, 1)[0]
		wantHandled(t, handled, lost, outbox.Applied, "")
		wantHandled(t, handled, lost, outbox.Duplicate, outbox.RepeatConfirmLost)

		again := k.writeEvents(t, db, 3, 1)[0]
		wantHandled(t, handled, again, outbox.Applied, "")
		broker.Redeliver(again)
		wantHandled(t, handled, again, outbox.Duplicate, outbox.RepeatRedelivery)

		// Two copies of which nobody says anything.
		broker.Deliver(2)
		twice := k.writeEvents(t, db, 4, 1)[0]
		wantHandled(t, handled, twice, outbox.Applied, "")
		wantHandled(t, handled, twice, outbox.Duplicate, outbox.RepeatUnknown)
	})
}

// told is what an observer was told of an event.
type told struct {
	id string
	outbox.Handled
}

type idKey struct{}

// observedConsumer returns a consumer and what its observer is told.
func observedConsumer(db *outbox.DB) (<-chan told, *outbox.Consumer) {
	all := make(chan told, 100)
	nothing := effect(func(context.Context, *outbox.Tx, string) error { return nil })
	return all, orderevents.NewSalesReport(db, nothing, &upcasts.Upcaster{}, &outbox.ConsumerConfig{Observer: &outbox.ConsumerObserver{
		Begin: func(ctx context.Context, b outbox.Begun) context.Context {
			return context.WithValue(ctx, idKey{}, b.EventID)
		},
		Handled: func(ctx context.Context, h outbox.Handled) {
			id, _ := ctx.Value(idKey{}).(string)
			all <- told{id, h}
		},
	}})
}

func wantHandled(t *testing.T, all <-chan told, id uuid.UUID, handling outbox.Handling, cause outbox.RepeatCause) {
	t.Helper()
	select {
	case h := <-all:
		if h.id != id.String() || h.Handling != handling || h.Cause != cause || h.EventType != orderevents.EventTypeOrderAccepted {
			t.Fatalf("%s: %v, %q; want %s: %v, %q", h.id, h.Handling, h.Cause, id, handling, cause)
		}
		if age := time.Since(h.Created); age < -time.Minute || age > 10*time.Minute {
			t.Errorf("created %v ago", age)
		}
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s was not handled, want %v, %q", id, handling, cause)
	}
}

// run runs f until the test ends; then end, which may be nil.
func run(t *testing.T, f func(context.Context) error, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := f(ctx); err != nil {
			t.Errorf("ended with %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if end != nil {
			end()
		}
	})
}
