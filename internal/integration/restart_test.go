package integration

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// The server is killed while writers and a relay work, and started again on the
// same data. Writers and relay go on by themselves; what was committed is published.
func TestKilledServer(t *testing.T) {
	for _, flavor := range dbserver.Flavors() {
		t.Run(flavor.String(), func(t *testing.T) {
			t.Parallel()
			server, err := dbserver.Start(t.Context(), flavor, dbserver.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = server.Stop() })
			own := dbtest.On(t, flavor, server.DSN(""))
			own.Exec(t, lanesKind.schema()...)
			db := open(t, own.DSN)
			broker := &ledger{}
			relay := startRelay(t, lanesKind.newStore(db), broker, outbox.RelayConfig{Lease: 5 * time.Second, PublishTimeout: time.Second})

			load := startLoad(t, db, 4)
			load.await(t, 100)
			server.Kill()
			if err := server.Restart(context.WithoutCancel(t.Context())); err != nil {
				t.Fatal(err)
			}
			load.await(t, load.committed.Load()+100)
			ids := load.end(t, db)
			awaitPublished(t, db)
			relay.end()
			repeats := broker.check(t, lanesKind, ids)
			s := relay.Stats()
			t.Logf("%d events, %d commits unknown, %d repeats, %v failed, %v warned of", len(ids), load.unknown.Load(), repeats, relay.failures(), relay.log.warnings())
			if s.Dead+s.Retried != 0 || len(relay.failures()) == 0 {
				t.Errorf("%+v, failed calls %v: want failed calls, and no event that suffers", s, relay.failures())
			}
			for message, n := range relay.log.warnings() {
				if n > 2 {
					t.Errorf("told %d times: %s", n, message)
				}
			}
		})
	}
}

// load writes events of orders, one order a writer, the versions in order.
type load struct {
	committed, unknown atomic.Int64
	stop               func()
	writers            sync.WaitGroup

	mu    sync.Mutex
	ids   []uuid.UUID
	maybe []uuid.UUID // their commits are unknown
}

func startLoad(t *testing.T, db *outbox.DB, writers int) *load {
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{stop: cancel}
	t.Cleanup(func() { cancel(); l.writers.Wait() })
	for writer := range writers {
		l.writers.Go(func() {
			// A version is written anew until it is certain that it is there.
			for version := int64(1); ctx.Err() == nil; {
				id := outbox.NewEventID()
				outcome, _ := outbox.InTx(ctx, db, func(tx *outbox.Tx) error {
					return lanesKind.write(ctx, tx, id, int64(writer+1), version)
				})
				if outcome == outbox.Unknown {
					l.unknown.Add(1)
					outcome = l.settle(ctx, db, id)
				}
				if outcome == outbox.Committed {
					version++
					l.note(id)
				}
			}
		})
	}
	return l
}

// settle finds out what became of a commit: the server is another process by
// then, so that no transaction of before is open on it.
func (l *load) settle(ctx context.Context, db *outbox.DB, id uuid.UUID) outbox.Outcome {
	for ctx.Err() == nil {
		var n int
		if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM outbox_event WHERE event_id = ?", id).Scan(&n); err == nil {
			if n == 1 {
				return outbox.Committed
			}
			return outbox.RolledBack
		}
		time.Sleep(10 * time.Millisecond) // what is waited for is a server
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.maybe = append(l.maybe, id)
	return outbox.Unknown
}

func (l *load) note(id uuid.UUID) {
	l.mu.Lock()
	l.ids = append(l.ids, id)
	l.mu.Unlock()
	l.committed.Add(1)
}

func (l *load) await(t *testing.T, committed int64) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); l.committed.Load() < committed; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d commits", l.committed.Load(), committed)
		}
		time.Sleep(5 * time.Millisecond) // what is waited for is a commit
	}
}

// end stops the writers and returns the events that are committed.
func (l *load) end(t *testing.T, db *outbox.DB) []uuid.UUID {
	t.Helper()
	l.stop()
	l.writers.Wait()
	ids := l.ids
	for _, id := range l.maybe {
		if count(t, db, "outbox_event WHERE event_id = ?", id) == 1 {
			ids = append(ids, id)
		}
	}
	return ids
}
