package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func TestOrderAndEventCommitTogether(t *testing.T) {
	each(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		event := outbox.NewEventID()
		outcome, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
			return placeOrder(t.Context(), tx, 1, "r", event)
		})
		if outcome != outbox.Committed || err != nil {
			t.Fatal(outcome, err)
		}
		if o, e := count(t, db, "orders"), count(t, db, "outbox_event"); o != 1 || e != 1 {
			t.Errorf("%d orders, %d events, want one of each", o, e)
		}
		if s := state(t, db, event); s.State != "PENDING" || s.Type != "order.accepted" || s.AggregateVersion != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestRolledBackOrderLeavesNoEvent(t *testing.T) {
	each(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		noStock := errors.New("out of stock")
		ways := map[string]func(tx *outbox.Tx) error{
			"business error after the event": func(tx *outbox.Tx) error {
				if err := placeOrder(t.Context(), tx, 1, "r", outbox.NewEventID()); err != nil {
					t.Error(err)
				}
				return noStock
			},
			"database error after the event": func(tx *outbox.Tx) error {
				if err := placeOrder(t.Context(), tx, 1, "r", outbox.NewEventID()); err != nil {
					t.Error(err)
				}
				_, err := tx.ExecContext(t.Context(), "INSERT INTO order_line (order_id, line_no, sku, quantity, unit_price) VALUES (-1, 1, 'x', 1, 1)")
				return err
			},
			"invalid payload, error swallowed": func(tx *outbox.Tx) error {
				id, err := insertOrder(t.Context(), tx, 1, "r", outbox.NewEventID())
				if err != nil {
					t.Error(err)
				}
				bad := acceptedPayload(id)
				bad.Total.Currency = "XXX"
				_ = orderevents.WriteOrderAccepted(t.Context(), tx, outbox.NewEventID(), bad)
				return nil
			},
			"too large a payload, error swallowed": func(tx *outbox.Tx) error {
				id, err := insertOrder(t.Context(), tx, 1, "r", outbox.NewEventID())
				if err != nil {
					t.Error(err)
				}
				large, note := acceptedPayload(id), strings.Repeat("x", outbox.MaxPayloadBytes)
				large.Note = &note
				if err := orderevents.WriteOrderAccepted(t.Context(), tx, outbox.NewEventID(), large); !errors.Is(err, outbox.ErrPayloadTooLarge) {
					t.Errorf("got %v", err)
				}
				return nil
			},
		}
		for name, fn := range ways {
			outcome, err := outbox.InTx(t.Context(), db, fn)
			if outcome != outbox.RolledBack || err == nil {
				t.Errorf("%s: %v, %v", name, outcome, err)
			}
			if o, e := count(t, db, "orders"), count(t, db, "outbox_event"); o != 0 || e != 0 {
				t.Errorf("%s: %d orders, %d events", name, o, e)
			}
		}
	})
}

// After a swallowed deadlock the server has rolled back, and the next statement
// of a plain *sql.Tx would commit by itself.
func TestSwallowedDeadlockCommitsNothing(t *testing.T) {
	each(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		mustExec(t, db, "INSERT INTO stock VALUES ('a', 1), ('b', 1)")
		lock := func(tx *outbox.Tx, sku string) error {
			_, err := tx.ExecContext(t.Context(), "UPDATE stock SET available = available + 1 WHERE sku = ?", sku)
			return err
		}
		locked := make(chan struct{})
		waiting := make(chan struct{})
		other := make(chan error, 1)
		go func() {
			_, err := outbox.InTx(context.WithoutCancel(t.Context()), db, func(tx *outbox.Tx) error {
				// More rows changed: the deadlock's victim is the transaction with fewer.
				for i := range 20 {
					if _, err := tx.ExecContext(t.Context(), "INSERT INTO stock VALUES (?, 1)", fmt.Sprint("x", i)); err != nil {
						return err
					}
				}
				if err := lock(tx, "a"); err != nil {
					return err
				}
				close(locked)
				<-waiting
				return lock(tx, "b")
			})
			other <- err
		}()
		<-locked
		outcome, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
			if err := lock(tx, "b"); err != nil {
				t.Error(err)
			}
			close(waiting)
			_ = lock(tx, "a") // deadlock, swallowed
			_ = placeOrder(t.Context(), tx, 1, "r", outbox.NewEventID())
			return nil
		})
		if err := <-other; err != nil {
			t.Fatalf("the other transaction should have survived: %v", err)
		}
		if outcome != outbox.RolledBack || db.Classify(errors.Unwrap(err)).Fault != outbox.FaultDeadlock {
			t.Errorf("%v, %v", outcome, err)
		}
		if o, e := count(t, db, "orders"), count(t, db, "outbox_event"); o != 0 || e != 0 {
			t.Errorf("%d orders, %d events were committed outside the transaction", o, e)
		}
	})
}

func TestLostCommitReplyIsUnknownAndReconciled(t *testing.T) {
	cases := []struct {
		name   string
		action mysqlproxy.Action
		found  bool
	}{
		{"the server committed, the reply was lost", mysqlproxy.CutReply, true},
		{"the server never saw COMMIT", mysqlproxy.CutRequest, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, server dbtest.Database, direct *outbox.DB) {
				proxy := mysqlproxy.Start(t, server.Addr)
				db := open(t, via(t, server, proxy.Addr(), nil))
				event := outbox.NewEventID()
				fault := proxy.At(c.action, mysqlproxy.Is("COMMIT"))
				outcome, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
					return placeOrder(t.Context(), tx, 1, "r", event)
				})
				var unknown *outbox.CommitUnknownError
				if outcome != outbox.Unknown || !errors.As(err, &unknown) {
					t.Fatalf("%v, %v", outcome, err)
				}
				<-fault.Hit
				found, err := orderevents.ReconcileOrderAccepted(t.Context(), direct, 1, "r")
				if err != nil || found.Found != c.found {
					t.Fatalf("%+v, %v; want found %v", found, err, c.found)
				}
				if c.found && found.EventID != event {
					t.Errorf("found event %s, want %s", found.EventID, event)
				}
				if o, e := count(t, direct, "orders"), count(t, direct, "outbox_event"); o != e || (o == 1) != c.found {
					t.Errorf("%d orders, %d events", o, e)
				}
			})
		})
	}
}

// The client has lost its connection and the COMMIT is still on its way: a plain
// SELECT says "absent", and a moment later the row is there.
func TestReconcileNeverSaysAbsentOfAnOpenTransaction(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, _ *outbox.DB) {
		proxy := mysqlproxy.Start(t, server.Addr)
		db := open(t, via(t, server, proxy.Addr(), nil))
		direct := open(t, via(t, server, "", func(c *mysql.Config) {
			c.Params = map[string]string{"innodb_lock_wait_timeout": "1"}
		}))
		fault := proxy.At(mysqlproxy.HoldRequest, mysqlproxy.Is("COMMIT"))
		outcome, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
			return placeOrder(t.Context(), tx, 1, "r", outbox.NewEventID())
		})
		if outcome != outbox.Unknown {
			t.Fatal(outcome, err)
		}
		if n := count(t, direct, "orders"); n != 0 {
			t.Fatalf("a plain read sees %d rows: the transaction isn't open any more", n)
		}
		if found, err := orderevents.ReconcileOrderAccepted(t.Context(), direct, 1, "r"); !errors.Is(err, outbox.ErrStillUnknown) {
			t.Fatalf("got %+v, %v; want still unknown", found, err)
		}
		type result struct {
			found outbox.Reconciled
			err   error
		}
		asked := make(chan result, 1)
		go func() { // this one waits for the lock, and then knows
			found, err := orderevents.ReconcileOrderAccepted(context.WithoutCancel(t.Context()), db, 1, "r")
			asked <- result{found, err}
		}()
		waitForLockWait(t, direct)
		close(fault.Forward)
		<-fault.Done
		if r := <-asked; r.err != nil || !r.found.Found {
			t.Errorf("after the COMMIT arrived: %+v, %v", r.found, r.err)
		}
	})
}

// waitForLockWait returns when some transaction on the server waits for a lock.
func waitForLockWait(t *testing.T, db *outbox.DB) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if count(t, db, "information_schema.innodb_trx t JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id WHERE p.db = DATABASE() AND t.trx_state = 'LOCK WAIT'") > 0 {
			return
		}
		// The server gives no signal for this, and renews the table only for who
		// hasn't asked for a tenth of a second.
		time.Sleep(150 * time.Millisecond)
	}
	t.Fatal("nobody waits for a lock")
}

func TestReconcileOfWhatNeverWas(t *testing.T) {
	each(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		found, err := orderevents.ReconcileOrderAccepted(t.Context(), db, 1, "never")
		if err != nil || found.Found {
			t.Errorf("%+v, %v", found, err)
		}
	})
}

// Without a unique key the request may find a stranger's row; that must not pass
// for its own.
func TestReconcileOfARequestThatIsNotUnique(t *testing.T) {
	each(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		mustExec(t, db, "ALTER TABLE orders DROP INDEX uq_orders_request")
		for range 2 {
			if _, err := insertOrder(t.Context(), db, 1, "r", outbox.NewEventID()); err != nil {
				t.Fatal(err)
			}
		}
		if found, err := orderevents.ReconcileOrderAccepted(t.Context(), db, 1, "r"); !errors.Is(err, outbox.ErrRequestNotUnique) {
			t.Errorf("got %+v, %v", found, err)
		}
	})
}

// With a single connection in the pool, a writer that took a second one would hang.
func TestWriterUsesOnlyItsTransaction(t *testing.T) {
	each(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		db.SetMaxOpenConns(1)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		outcome, err := outbox.InTx(ctx, db, func(tx *outbox.Tx) error {
			return placeOrder(ctx, tx, 1, "r", outbox.NewEventID())
		})
		if outcome != outbox.Committed {
			t.Error(outcome, err)
		}
	})
}

func TestRollbackToSavepointTakesTheEventWithTheOrder(t *testing.T) {
	each(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		outcome, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
			if err := placeOrder(t.Context(), tx, 1, "kept", outbox.NewEventID()); err != nil {
				return err
			}
			if _, err := tx.ExecContext(t.Context(), "SAVEPOINT a"); err != nil {
				return err
			}
			if err := placeOrder(t.Context(), tx, 1, "undone", outbox.NewEventID()); err != nil {
				return err
			}
			_, err := tx.ExecContext(t.Context(), "ROLLBACK TO SAVEPOINT a")
			return err
		})
		if outcome != outbox.Committed {
			t.Fatal(outcome, err)
		}
		if o, e := count(t, db, "orders"), count(t, db, "outbox_event"); o != 1 || e != 1 {
			t.Errorf("%d orders, %d events, want one of each", o, e)
		}
	})
}
