package consumerproof

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// judge is asked about every acknowledgement while it is held back on the wire: is the
// dedup row of its event committed?
type judge struct {
	db      *outbox.DB
	waiting *waitingCopies // nil where a broker has no such thing
	first   chan struct{}  // closed when the first acknowledgement has been judged

	mu        sync.Mutex
	committed map[uuid.UUID]bool
	ended     int // acknowledgements of events whose dedup row was there
	waits     int // of deliveries that wait in a queue to come again
	early     []string
}

func newJudge(db *outbox.DB, waiting *waitingCopies) *judge {
	return &judge{db: db, waiting: waiting, first: make(chan struct{}), committed: make(map[uuid.UUID]bool)}
}

func (j *judge) acked(deliveries []uuid.UUID) {
	for _, id := range deliveries {
		committed, err := j.isCommitted(id)
		j.mu.Lock()
		switch {
		case err != nil:
			j.early = append(j.early, fmt.Sprintf("%s: %v", id, err))
		case committed:
			j.ended++
		case j.waiting != nil && j.waiting.take(id):
			j.waits++
		default:
			j.early = append(j.early, id.String())
		}
		if j.ended+j.waits+len(j.early) == 1 {
			close(j.first)
		}
		j.mu.Unlock()
	}
}

// isCommitted asks by a connection that sees what is committed only. Dedup rows stay.
func (j *judge) isCommitted(id uuid.UUID) (bool, error) {
	j.mu.Lock()
	known := j.committed[id]
	j.mu.Unlock()
	if known {
		return true, nil
	}
	n := 0
	err := j.db.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM consumed_event WHERE event_id = ?", id.String()).Scan(&n)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.committed[id] = n > 0
	return n > 0, err
}

func (j *judge) counts() (ended, waits, early int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ended, j.waits, len(j.early)
}

// The events of the proof: some fail at first, some come twice, one is given up on.
const (
	provenEvents  = 300
	provenRepeats = 30
	failEvery     = 15
	permanentOne  = 100
)

func TestAcknowledgedAfterCommit(t *testing.T) {
	eachBroker(t, func(t *testing.T, name string) {
		for _, flavor := range dbserver.Flavors() {
			for _, concurrency := range []int{1, 8} {
				t.Run(fmt.Sprintf("%s/%d", string(flavor), concurrency), func(t *testing.T) {
					t.Parallel()
					acknowledgedAfterCommit(t, name, flavor, concurrency)
				})
			}
		}
	})
}

func acknowledgedAfterCommit(t *testing.T, name string, flavor dbserver.Flavor, concurrency int) {
	_, db := fresh(t, flavor)
	rig := newRig(t, name)
	all := events(t, 30, provenEvents/30)
	rig.publish(t, all)
	rig.repeats()
	rig.publish(t, all[:provenRepeats])
	if rig.stored != nil {
		if n := len(rig.stored()); n != provenEvents+provenRepeats {
			t.Fatalf("the broker has %d messages", n)
		}
	}

	faults := newFaults(all)
	consumer := orderevents.NewSalesReport(db, effect(faults.tally), &upcasts.Upcaster{}, &outbox.ConsumerConfig{
		Backoff: 20 * time.Millisecond, MaxBackoff: 100 * time.Millisecond, Logger: quiet(),
	})
	j := newJudge(db, rig.waiting)
	proxy := startProxy(t, rig.Addr, rig.protocol, j.acked)
	stop := run(t, rig.via(proxy.addr()), consumer, settings{concurrency: concurrency})
	await(t, "every message is acknowledged", func() bool {
		ended, _, early := j.counts()
		return early > 0 || ended >= provenEvents+provenRepeats && count(t, db, "consumed_event") == provenEvents
	})
	stop()
	proxy.check(t)

	ended, waits, early := j.counts()
	s := consumer.Stats()
	t.Logf("%d acknowledgements of %d events, %d of deliveries that wait; %d errors, %d absorbed, %d parked",
		ended, provenEvents, waits, s.Errors, s.Duplicates, s.Parked)
	if early > 0 {
		t.Errorf("%d acknowledgements before the commit, of %v", early, j.early)
	}
	if rows, effects, parked := count(t, db, "consumed_event"), count(t, db, "tally"), count(t, db, "parked_event"); rows != provenEvents || effects != provenEvents-1 || parked != 1 {
		t.Errorf("%d dedup rows, %d effects, %d parked; want %d, %d, 1", rows, effects, parked, provenEvents, provenEvents-1)
	}
	if s.Errors < provenEvents/failEvery || s.Duplicates < provenRepeats {
		t.Errorf("the faults did not happen: %d errors, %d duplicates", s.Errors, s.Duplicates)
	}
	if rig.waiting != nil && waits < provenEvents/failEvery {
		t.Errorf("%d deliveries were acknowledged because they wait, want those that failed", waits)
	}
}

// faults are a handler's.
type faults struct {
	permanent uuid.UUID

	mu    sync.Mutex
	fails map[uuid.UUID]bool // once
}

func newFaults(all []outbox.Envelope) *faults {
	f := &faults{permanent: all[permanentOne].ID, fails: make(map[uuid.UUID]bool)}
	for i := 0; i < len(all); i += failEvery {
		f.fails[all[i].ID] = true
	}
	return f
}

func (f *faults) tally(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error {
	if err := tally(ctx, tx, e); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails[e.ID] {
		delete(f.fails, e.ID)
		return errors.New("not now")
	}
	if e.ID == f.permanent {
		return outbox.Permanent(errors.New("never"))
	}
	return nil
}

// liar says that an event is applied before it is.
type liar struct {
	outbox.Handler
	wait    <-chan struct{}
	working *sync.WaitGroup
}

func (l liar) Handle(ctx context.Context, e outbox.Envelope) (outbox.Handling, error) {
	l.working.Go(func() {
		<-l.wait
		_, _ = l.Handler.Handle(context.WithoutCancel(ctx), e)
	})
	return outbox.Applied, nil
}

// The proof can fail: a consumer whose events are acknowledged too early is found out on
// each broker.
func TestAcknowledgedBeforeCommitIsSeen(t *testing.T) {
	eachBroker(t, func(t *testing.T, name string) {
		t.Parallel()
		_, db := fresh(t, dbserver.MySQL)
		rig := newRig(t, name)
		rig.publish(t, events(t, 5, 2))
		j := newJudge(db, rig.waiting)
		var working sync.WaitGroup
		consumer := liar{
			Handler: orderevents.NewSalesReport(db, effect(tally), &upcasts.Upcaster{}, &outbox.ConsumerConfig{Logger: slog.New(slog.DiscardHandler)}),
			wait:    j.first, working: &working,
		}
		proxy := startProxy(t, rig.Addr, rig.protocol, j.acked)
		stop := run(t, rig.via(proxy.addr()), consumer, settings{concurrency: 1})
		<-j.first
		await(t, "every event is applied in the end", func() bool { return count(t, db, "consumed_event") == 10 })
		stop()
		working.Wait()
		proxy.check(t)
		if _, _, early := j.counts(); early == 0 {
			t.Error("nobody noticed")
		}
	})
}
