package integration

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// deadlocked runs fn in a transaction whose locking read of stock "a" is a
// deadlock's victim; read runs that statement and swallows its error.
func deadlocked(t *testing.T, db *outbox.DB, inTx func(func(tx *outbox.Tx) error) error, read, after func(tx *outbox.Tx)) error {
	t.Helper()
	mustExec(t, db, "REPLACE INTO stock VALUES ('a', 1), ('b', 1), ('c', 1)")
	locked, waiting := make(chan struct{}), make(chan struct{})
	other := make(chan error, 1)
	go func() {
		_, err := outbox.InTx(context.WithoutCancel(t.Context()), db, func(tx *outbox.Tx) error {
			// More rows changed: the deadlock's victim is the transaction with fewer.
			for range 20 {
				if _, err := tx.ExecContext(t.Context(), "INSERT INTO notification_channel VALUES (UUID_SHORT() % 1000000007, 'x')"); err != nil {
					return err
				}
			}
			if _, err := tx.ExecContext(t.Context(), "UPDATE stock SET available = 2 WHERE sku = 'a'"); err != nil {
				return err
			}
			close(locked)
			<-waiting
			_, err := tx.ExecContext(t.Context(), "UPDATE stock SET available = 3 WHERE sku = 'b'")
			return err
		})
		other <- err
	}()
	<-locked
	err := inTx(func(tx *outbox.Tx) error {
		if _, err := tx.ExecContext(t.Context(), "UPDATE stock SET available = 4 WHERE sku = 'b'"); err != nil {
			t.Error(err)
		}
		close(waiting)
		waitForLockWait(t, db)
		read(tx)
		after(tx)
		return nil
	})
	if err := <-other; err != nil {
		t.Fatalf("the other transaction should have survived: %v", err)
	}
	return err
}

// The ways in which an error that ended the transaction can be overlooked.
func swallowedReads(t *testing.T) map[string]func(tx *outbox.Tx) {
	// A range, so that the server answers with a result set before it meets the lock.
	const query = "SELECT sku FROM stock WHERE sku >= 'a' AND sku <= 'a' FOR UPDATE"
	return map[string]func(tx *outbox.Tx){
		"a row's Scan": func(tx *outbox.Tx) {
			_ = tx.QueryRowContext(t.Context(), query).Scan(new(string))
		},
		"rows left open": func(tx *outbox.Tx) {
			_, _ = tx.QueryContext(t.Context(), query) // left open on purpose
		},
		"rows read without Err": func(tx *outbox.Tx) {
			rows, err := tx.QueryContext(t.Context(), query)
			if err == nil {
				for rows.Next() {
				}
				_ = rows.Close()
			}
		},
		"a prepared statement": func(tx *outbox.Tx) {
			stmt, err := tx.PrepareContext(t.Context(), query)
			if err == nil {
				_ = stmt.QueryRowContext(t.Context()).Scan(new(string))
			}
		},
	}
}

func TestOverlookedDeadlockCommitsNothing(t *testing.T) {
	each(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		for name, read := range swallowedReads(t) {
			var outcome outbox.Outcome
			err := deadlocked(t, db, func(fn func(tx *outbox.Tx) error) (err error) {
				outcome, err = outbox.InTx(t.Context(), db, fn)
				return err
			}, read, func(tx *outbox.Tx) {
				if name != "rows left open" { // there the order never comes
					_ = placeOrder(t.Context(), tx, 1, name, outbox.NewEventID())
				}
			})
			if outcome != outbox.RolledBack || err == nil {
				t.Errorf("%s: %v, %v", name, outcome, err)
			}
			if o, e := count(t, db, "orders"), count(t, db, "outbox_event"); o != 0 || e != 0 {
				t.Errorf("%s: %d orders, %d events were committed outside the transaction", name, o, e)
			}
		}
	})
}

// A statement that was prepared before the deadlock must not run after it.
func TestPreparedStatementAfterADeadlock(t *testing.T) {
	each(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		var insert *sql.Stmt
		err := deadlocked(t, db, func(fn func(tx *outbox.Tx) error) error {
			_, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
				var err error
				if insert, err = tx.PrepareContext(t.Context(), "INSERT INTO stock VALUES ('late', 1)"); err != nil {
					t.Error(err)
				}
				return fn(tx)
			})
			return err
		}, swallowedReads(t)["a row's Scan"], func(*outbox.Tx) {
			var poisoned *outbox.PoisonedError
			if _, err := insert.ExecContext(t.Context()); !errors.As(err, &poisoned) {
				t.Errorf("the prepared statement ran: %v", err)
			}
		})
		if err == nil {
			t.Error("committed")
		}
		if n := count(t, db, "stock WHERE sku = 'late'"); n != 0 {
			t.Error("a row was committed outside the transaction")
		}
	})
}

// In a consumer, a deadlock that the handler overlooks must not be acknowledged.
func TestConsumerThatOverlooksADeadlock(t *testing.T) {
	eachConsumer(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		for name, read := range swallowedReads(t) {
			e := envelope(t)
			var handling outbox.Handling
			err := deadlocked(t, db, func(fn func(tx *outbox.Tx) error) (err error) {
				consumer := orderevents.NewSalesReport(db, effect(func(ctx context.Context, tx *outbox.Tx, id string) error {
					if err := tally(ctx, tx, id); err != nil {
						return err
					}
					return fn(tx)
				}), &upcasts.Upcaster{}, nil)
				handling, err = consumer.Handle(t.Context(), e)
				return err
			}, read, func(*outbox.Tx) {})
			if handling != outbox.NotHandled || err == nil {
				t.Errorf("%s: %v, %v", name, handling, err)
			}
			if n := count(t, db, "consumed_event"); n != 0 {
				t.Errorf("%s: %d dedup rows", name, n)
			}
		}
	})
}

// After a failover the old primary is read-only, and the connections to it are
// as good as ever. They must not be kept, in a transaction or out of one.
func TestConnectionToAReadOnlyServerIsNotKept(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		db.SetMaxOpenConns(1)
		mustExec(t, db, "CREATE TABLE demoted (id INT)")
		mustExec(t, db, "CREATE TRIGGER demoted BEFORE INSERT ON demoted FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = '--read-only'")
		connection := func() (id int64) {
			if err := db.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
				t.Fatal(err)
			}
			return id
		}
		before := connection()
		if connection() != before {
			t.Fatal("a sound connection was not kept")
		}
		_, err := db.ExecContext(t.Context(), "INSERT INTO demoted VALUES (1)")
		if db.Classify(err).Fault != outbox.FaultReadOnly {
			t.Fatalf("got %v: the fault did not happen", err)
		}
		second := connection()
		if second == before {
			t.Error("the connection was kept")
		}
		outcome, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
			_, err := tx.ExecContext(t.Context(), "INSERT INTO demoted VALUES (1)")
			return err
		})
		if outcome != outbox.RolledBack || db.Classify(err).Fault != outbox.FaultReadOnly {
			t.Errorf("%v, %v", outcome, err)
		}
		if connection() == second {
			t.Error("the connection was kept after a transaction")
		}
	})
}
