package consumerproof

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const (
	// poisonAttempts come while the others are handled, further and further apart, the last one
	// after them.
	poisonAttempts = 9

	// onTheWay is how many events at most are published and not handled, the bad one aside.
	onTheWay = 100

	// longestDelay is how long an event may take from its publish to its commit, at full
	// size: no wait of the bad event's is so short.
	longestDelay = time.Second
)

// poisonSize is how many messages there are besides the bad one, and the last wait between
// its attempts: long enough for all others to be handled meanwhile.
func poisonSize() (others int, wait time.Duration) {
	if full {
		return 10_000, 30 * time.Second
	}
	return 1000, 10 * time.Second
}

// An event that always fails is parked once, and the others don't wait for it. At full size
// one runs after the other, so that a delay is not the other runs'.
func TestPoison(t *testing.T) {
	inParallel := func(t *testing.T) {
		t.Helper()
		if !full {
			t.Parallel()
		}
	}
	eachBroker(t, func(t *testing.T, name string) {
		inParallel(t)
		eachFlavor(t, len(name), func(t *testing.T, flavor dbserver.Flavor) {
			inParallel(t)
			poison(t, name, flavor)
		})
	})
}

func poison(t *testing.T, name string, flavor dbserver.Flavor) {
	_, db := fresh(t, flavor)
	rig := newRig(t, name)
	others, wait := poisonSize()
	const aggregates = 100
	all := events(t, aggregates, others/aggregates)
	bad := events(t, aggregates+1, 1)[aggregates] // the one event of its aggregate
	w := newPoisonWatch(db, bad.ID, wait)
	stats := new(outbox.SubscribeStats)
	stop := run(t, rig.place, w, settings{concurrency: 8, stats: stats})

	const piece = 20
	for i := 0; i < others; i += piece {
		if i == others/10 {
			rig.publish(t, []outbox.Envelope{bad})
		}
		w.publish(t, rig, all[i:i+piece])
	}
	await(t, "the bad event is parked", func() bool { return count(t, db, "parked_event") > 0 })
	stop()

	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("%d others handled, after at most %v, before the attempts at the bad one %v of them; %d deliveries, Handle called %d times",
		w.handled, w.longest.Round(time.Millisecond), w.before, stats.Delivered.Load(), w.calls)
	if len(w.before) != poisonAttempts || w.before[poisonAttempts-1] != others || w.handled != others {
		t.Errorf("%d others were handled, before the attempts at the bad one %v of them; want all of %d before the last of %d",
			w.handled, w.before, others, poisonAttempts)
	}
	if full && w.longest >= longestDelay {
		t.Errorf("an event was handled %v after its publish", w.longest)
	}
	if w.calls > others+poisonAttempts || stats.Delivered.Load() > int64(others+poisonAttempts) {
		t.Errorf("%d calls, %d deliveries of %d messages", w.calls, stats.Delivered.Load(), others+1)
	}
	for rows, want := range map[string]int{
		"tally": others, "(SELECT DISTINCT event_id FROM tally) d": others, "consumed_event WHERE outcome = 1": others,
		"parked_event": 1, "parked_event WHERE kind = 'attempts' AND event_id = '" + bad.ID.String() + "'": 1,
	} {
		if n := count(t, db, rows); n != want {
			t.Errorf("%d rows of %s, want %d", n, rows, want)
		}
	}
}

// poisonWatch is a consumer with one event that it can't apply. It knows when each other one was
// published and handled.
type poisonWatch struct {
	*outbox.Consumer
	bad  uuid.UUID
	room chan struct{} // a token an event on its way

	mu        sync.Mutex
	published map[uuid.UUID]time.Time
	calls     int   // of Handle
	handled   int   // others
	before    []int // of those: before each attempt at the bad event
	longest   time.Duration
}

func newPoisonWatch(db *outbox.DB, bad uuid.UUID, wait time.Duration) *poisonWatch {
	do := func(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error {
		if err := tally(ctx, tx, e); err != nil || e.ID != bad {
			return err
		}
		return errors.New("not this one")
	}
	cfg := &outbox.ConsumerConfig{Attempts: poisonAttempts, Backoff: wait >> (poisonAttempts - 2), MaxBackoff: wait, Logger: quiet()}
	return &poisonWatch{
		Consumer: orderevents.NewSalesReport(db, effect(do), &upcasts.Upcaster{}, cfg),
		bad:      bad, room: make(chan struct{}, onTheWay), published: make(map[uuid.UUID]time.Time),
	}
}

// publish publishes when there is room.
func (w *poisonWatch) publish(t *testing.T, r *rig, piece []outbox.Envelope) {
	t.Helper()
	stuck := time.After(2 * time.Minute)
	for range piece {
		select {
		case w.room <- struct{}{}:
		case <-stuck:
			t.Fatalf("%d events are on their way and none is handled", onTheWay)
		}
	}
	w.mu.Lock()
	for _, e := range piece {
		w.published[e.ID] = time.Now()
	}
	w.mu.Unlock()
	r.publish(t, piece)
}

func (w *poisonWatch) Handle(ctx context.Context, e outbox.Envelope) (outbox.Handling, error) {
	w.mu.Lock()
	w.calls++
	if e.ID == w.bad {
		w.before = append(w.before, w.handled)
	}
	w.mu.Unlock()
	handling, err := w.Consumer.Handle(ctx, e)
	w.mu.Lock()
	defer w.mu.Unlock()
	if handling == outbox.Applied {
		w.handled++
		w.longest = max(w.longest, time.Since(w.published[e.ID]))
		<-w.room
	}
	return handling, err
}
