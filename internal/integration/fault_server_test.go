package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// serverErrors are what a server answers when it is itself in trouble, with their
// SQLSTATEs.
var serverErrors = map[int]string{
	1020: "HY000", // the row has changed: MariaDB, with innodb_snapshot_isolation
	1213: "40001", // deadlock
	1290: "HY000", // read-only, after a failover
	1836: "HY000", // the same, in another mode
}

// While the server refuses changes with an error of its own, the relay tries again;
// afterwards it goes on, with nothing lost, repeated or counted as an attempt.
func TestRelayOutlivesServerErrors(t *testing.T) {
	const refusals = 4
	for number, state := range serverErrors {
		for table, call := range map[string]string{"outbox_lane": "claim", "outbox_event": "settle"} {
			t.Run(fmt.Sprintf("%d on %s", number, table), func(t *testing.T) {
				t.Parallel()
				kinds := keptKinds
				if table == "outbox_lane" {
					kinds = []kind{lanesKind}
				}
				eachKind(t, kinds, func(t *testing.T, k kind, _ dbtest.Database, db *outbox.DB) {
					call := call
					if !k.ordered {
						call = "claim" // there it is the claim that changes events first
					}
					ids := k.writeSeries(t, db, 12, 5)
					mustExec(t, db, fmt.Sprintf(`CREATE TRIGGER refuse BEFORE UPDATE ON %s FOR EACH ROW
						SIGNAL SQLSTATE '%s' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = '--read-only, if it is that'`, table, state, number))
					broker := &ledger{}
					relay := startRelay(t, k.newStore(db), broker, outbox.RelayConfig{})
					relay.awaitFailures(t, refusals)
					mustExec(t, db, "DROP TRIGGER refuse")
					awaitPublished(t, db)
					relay.checkCalm(t, db, len(ids), warningOf[call])
					if n := relay.failures(); n[call] < refusals || len(n) != 1 {
						t.Errorf("the store's calls that failed: %v", n)
					}
					if repeats := broker.check(t, k, ids); repeats > 0 {
						t.Errorf("%d events were published again", repeats)
					}
				})
			})
		}
	}
}

// Somebody holds the lanes of a batch for longer than a connection waits for a lock
// (1205): the mark is made as soon as they are free.
func TestSettleOutlivesALockWait(t *testing.T) {
	eachDB(t, lanesKind, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		ids := lanesKind.writeSeries(t, db, 12, 5)
		var lanes *sql.Tx
		var once sync.Once
		broker := &ledger{before: func(context.Context, []outbox.Envelope) {
			once.Do(func() { // between claim and mark
				var err error
				if lanes, err = db.BeginTx(t.Context(), nil); err == nil {
					_, err = lanes.ExecContext(t.Context(), "SELECT lane FROM outbox_lane FOR UPDATE")
				}
				if err != nil {
					t.Error(err)
				}
			})
		}}
		relay := startRelay(t, lanesKind.newStore(impatient(t, server)), broker, outbox.RelayConfig{MaxBatches: 1})
		relay.awaitFailures(t, 2)
		if n := count(t, db, "outbox_event WHERE status <> 0"); n > 0 {
			t.Errorf("%d events were marked in lanes that somebody else has locked", n)
		}
		if err := lanes.Rollback(); err != nil {
			t.Error(err)
		}
		awaitPublished(t, db)
		relay.checkCalm(t, db, len(ids), warningOf["settle"])
		if n := relay.failures(); n["settle"] < 2 || len(n) != 1 {
			t.Errorf("the store's calls that failed: %v", n)
		}
		if repeats := broker.check(t, lanesKind, ids); repeats > 0 {
			t.Errorf("%d events were published again", repeats)
		}
	})
}

// A failed attempt is counted once, however often recording it takes.
func TestAttemptIsCountedOnceThroughServerErrors(t *testing.T) {
	eachKind(t, keptKinds, func(t *testing.T, k kind, _ dbtest.Database, db *outbox.DB) {
		id := k.writeEvents(t, db, 1, 1)[0]
		// The row of the failure comes after that of the event, in one transaction.
		mustExec(t, db, `CREATE TRIGGER refuse BEFORE INSERT ON outbox_failure FOR EACH ROW
			SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = '--read-only, if it is that'`)
		relay := startRelay(t, k.newStore(db), failing{}, outbox.RelayConfig{})
		relay.awaitFailures(t, 3)
		if s := k.state(t, db, id); s.Attempts != 0 {
			t.Errorf("%d attempts of a transaction that was rolled back", s.Attempts)
		}
		mustExec(t, db, "DROP TRIGGER refuse")
		await(t, db, "outbox_event WHERE attempts > 0")
		relay.end()
		if s := k.state(t, db, id); s.Attempts != 1 || s.State != "PENDING" || relay.Stats().Retried != 1 {
			t.Errorf("%+v, %+v, want one attempt", s, relay.Stats())
		}
	})
}

// failing is a broker that takes nothing.
type failing struct{}

func (failing) Publish(_ context.Context, messages []outbox.Envelope) []error {
	results := make([]error, len(messages))
	for i := range results {
		results[i] = outbox.PublishFailed(errors.New("no"))
	}
	return results
}
