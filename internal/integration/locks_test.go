package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/storesuite"
)

// impatient opens the database so that a wait for a lock is soon an error.
func impatient(t testing.TB, server dbtest.Database) *outbox.DB {
	t.Helper()
	return open(t, via(t, server, "", func(c *mysql.Config) {
		c.Params = map[string]string{"innodb_lock_wait_timeout": "1"}
	}))
}

// atEachStatement runs fn again and again, with the connection standing still
// before its first statement, its second, and so on, and calls look each time.
func atEachStatement(t *testing.T, proxy *mysqlproxy.Proxy, fn func(), look func(before string)) (statements int) {
	t.Helper()
	for n := 1; ; n++ {
		fault := proxy.At(mysqlproxy.Stall, mysqlproxy.Nth(n))
		done := make(chan struct{})
		go func() { defer close(done); fn() }()
		select {
		case <-fault.Hit:
			sent := proxy.Statements()
			look(sent[len(sent)-1])
			close(fault.Forward)
			<-done
		case <-done:
			proxy.Disarm(fault)
			return n - 1
		}
	}
}

// writersWait reports whether a writer of events of many aggregates has to wait.
// It leaves nothing behind.
func (k kind) writersWait(ctx context.Context, writer *outbox.DB) error {
	rollBack := errors.New("enough")
	_, err := outbox.InTx(ctx, writer, func(tx *outbox.Tx) error {
		for order := range int64(100) {
			if err := k.write(ctx, tx, outbox.NewEventID(), order, 2); err != nil {
				return err
			}
		}
		return rollBack
	})
	if errors.Is(err, rollBack) {
		return nil
	}
	return err
}

// A poll must take no lock that a writer would wait for, at whichever of its
// statements it is, and also when it finds nothing; no more may a settlement.
func TestRelayMakesNoWriterWait(t *testing.T) {
	for _, waiting := range []int{0, 1000} {
		t.Run(fmt.Sprintf("%d waiting", waiting), func(t *testing.T) {
			eachKind(t, keptKinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
				fill(t, db, 50, waiting)
				proxy, writer := mysqlproxy.Start(t, server.Addr), impatient(t, server)
				store := k.newStore(open(t, via(t, server, proxy.Addr(), nil)))
				look := func(before string) {
					if err := k.writersWait(t.Context(), writer); err != nil {
						t.Errorf("a writer waited for a relay that is before %.60q: %v", before, err)
					}
				}
				n := atEachStatement(t, proxy, func() {
					owner := storesuite.NewOwner()
					b := claimN(t, store, owner, 20)
					if len(b.Events) > 0 {
						outcomes := allOutcomes(b, outbox.OutcomePublished)
						outcomes[0].Kind = outbox.OutcomeRetry
						if _, err := store.Settle(t.Context(), b, outcomes); err != nil {
							t.Error(err)
						}
					}
					if err := store.Release(t.Context(), owner); err != nil {
						t.Error(err)
					}
				}, look)
				if least := map[bool]int{true: 5, false: 15}[waiting == 0]; n < least {
					t.Errorf("these were %d statements: the test looks at too little", n)
				}
			})
		})
	}
}

// A claim of rows locks what it takes, and leaves the rest to others.
func TestClaimLocksOnlyItsBatch(t *testing.T) {
	const batch = 100
	for _, waiting := range []int{0, 1000, 100_000} {
		t.Run(fmt.Sprintf("%d waiting", waiting), func(t *testing.T) {
			eachDB(t, rowsKind, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
				fill(t, db, 1000, waiting)
				at := inClaim
				if waiting == 0 { // there is nothing to lease
					at = point{text: "SKIP LOCKED", commit: true}
				}
				stopAt(t, rowsKind, server, 60, at).run(t, batch)
				// Two lock records a row: in the index and in the table.
				if n := recordLocks(t, server, db); n > 2*batch {
					t.Errorf("the claim holds %d record locks, want at most %d", n, 2*batch)
				}
				b := claimN(t, rowsKind.newStore(db), storesuite.NewOwner(), batch)
				if len(b.Events) != min(batch, waiting) {
					t.Errorf("a second relay got %d events, want a full batch", len(b.Events))
				}
			})
		})
	}
}

// A claim of lanes locks no event: at none of its statements is any locked, and
// it doesn't wait for those that others have locked.
func TestLaneClaimLocksNoEvent(t *testing.T) {
	eachDB(t, lanesKind, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		const waiting = 1000
		fill(t, db, 50, waiting)
		proxy := mysqlproxy.Start(t, server.Addr)
		store := lanesKind.newStore(open(t, via(t, server, proxy.Addr(), func(c *mysql.Config) {
			c.Params = map[string]string{"innodb_lock_wait_timeout": "1"}
		})))
		claim := func() {
			if b := claimN(t, store, storesuite.NewOwner(), 100); len(b.Events) == 0 {
				t.Error("nothing was claimed")
			}
			// As if its process had ended: nothing more is sent.
			mustExec(t, db, "UPDATE outbox_lane SET lease_owner = '', lease_until = '1970-01-01'")
		}
		withEventsLocked := func(fn func(err error)) {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }()
			res, err := tx.ExecContext(t.Context(), "UPDATE outbox_event SET attempts = attempts + 1 WHERE status = 0")
			if err == nil {
				if n, _ := res.RowsAffected(); n != waiting {
					err = fmt.Errorf("%d of %d events: the test looks at the wrong thing", n, waiting)
				}
			}
			fn(err)
		}
		n := atEachStatement(t, proxy, claim, func(before string) {
			withEventsLocked(func(err error) {
				if err != nil {
					t.Errorf("before %.60q not all events can be locked: %v", before, err)
				}
			})
		})
		if n < 8 {
			t.Errorf("a claim is %d statements: the test looks at too little", n)
		}
		withEventsLocked(func(err error) {
			if err != nil {
				t.Error(err)
			}
			claim()
		})
	})
}

// recordLocks counts the record locks of the schema's open transactions.
func recordLocks(t *testing.T, server dbtest.Database, db *outbox.DB) int {
	t.Helper()
	query := `SELECT COUNT(*) FROM performance_schema.data_locks WHERE object_schema = DATABASE() AND lock_type = 'RECORD'`
	if server.Flavor == dbserver.MariaDB { // lists no locks; it counts them
		query = `SELECT COALESCE(SUM(trx_rows_locked), 0) FROM information_schema.innodb_trx t
			JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id WHERE p.db = DATABASE()`
	}
	// MariaDB makes its list anew when nobody has read it for 100 ms (TRX_I_S).
	var locks int
	for deadline := time.Now().Add(time.Second); locks == 0 && time.Now().Before(deadline); {
		if err := db.QueryRowContext(t.Context(), query).Scan(&locks); err != nil {
			t.Fatal(err)
		}
		if server.Flavor != dbserver.MariaDB {
			break
		}
		time.Sleep(150 * time.Millisecond)
	}
	return locks
}
