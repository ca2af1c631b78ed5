package integration

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// nobody is an address at which nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A database that is away is nobody's fault, for events of every kind.
func TestNothingIsCountedWithoutADatabase(t *testing.T) {
	eachConsumer(t, func(t *testing.T, server dbtest.Database, direct *outbox.DB) {
		consumer := report(open(t, via(t, server, nobody(t), nil)), tally)
		e, unknown := envelope(t), envelope(t)
		unknown.Type = "order.unknown"
		for range 5 {
			fails(t, consumer, e, outbox.FailureUnavailable, 0)
			fails(t, consumer, unknown, outbox.FailureUnavailable, 0)
			err := consumer.Park(t.Context(), outbox.Unreadable{Reference: "S/1", Reason: outbox.ErrNotAnEvent})
			if !outbox.RedeliveryOf(err).Pause {
				t.Errorf("park: %v", err)
			}
			if _, err := consumer.Redrive(t.Context(), e.ID); !outbox.RedeliveryOf(err).Pause {
				t.Errorf("redrive: %v", err)
			}
		}
		back := report(direct, tally)
		ends(t, back, e, outbox.Applied)
		checkLeft(t, direct, e, left{attempts: -1, outcome: int(outbox.Applied), effects: 1})
	})
}

// Wherever its connection breaks, an attempt is not counted, not even by a handler
// that says something else.
func TestNothingIsCountedOnACutConnection(t *testing.T) {
	eachConsumer(t, func(t *testing.T, server dbtest.Database, direct *outbox.DB) {
		proxy := mysqlproxy.Start(t, server.Addr)
		db := open(t, via(t, server, proxy.Addr(), nil))
		for _, statement := range []string{"START TRANSACTION", "INSERT INTO consumed_event", "INSERT INTO tally", "SELECT name FROM biz", "COMMIT"} {
			for name, action := range cutActions {
				consumer := report(db, func(ctx context.Context, tx *outbox.Tx, id string) error {
					err := errors.Join(tally(ctx, tx, id), readNames(ctx, tx))
					if err != nil {
						return outbox.Permanent(errors.New("said in other words"))
					}
					return nil
				})
				e := envelope(t)
				match := mysqlproxy.Has(statement)
				if statement == "COMMIT" { // and not READ COMMITTED
					match = mysqlproxy.Is(statement)
				}
				fault := proxy.At(action, match)
				fails(t, consumer, e, outbox.FailureUnavailable, 0)
				<-fault.Hit
				if got := leftOf(t, direct, e); got.attempts != -1 || got.parked != 0 {
					t.Errorf("%s of %s: %+v", name, statement, got)
				}
				deliver(t, consumer, e)
				checkLeft(t, direct, e, left{attempts: -1, outcome: int(outbox.Applied), effects: 1})
			}
		}
	})
}

// readNames reads to the end, where an error may wait.
func readNames(ctx context.Context, tx *outbox.Tx) error {
	rows, err := tx.QueryContext(ctx, "SELECT name FROM biz")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(new(string)); err != nil {
			return err
		}
	}
	return rows.Err()
}

// The count of a failure may be lost, and is then made at the next delivery.
func TestCountOnACutConnection(t *testing.T) {
	eachConsumer(t, func(t *testing.T, server dbtest.Database, direct *outbox.DB) {
		proxy := mysqlproxy.Start(t, server.Addr)
		db := open(t, via(t, server, proxy.Addr(), nil))
		consumer := report(db, func(context.Context, *outbox.Tx, string) error { return errors.New("no") })
		e := envelope(t)
		for _, statement := range []string{"name: CountFailure ", "name: ReadAttempts "} {
			fault := proxy.At(mysqlproxy.CutReply, mysqlproxy.Has(statement))
			fails(t, consumer, e, outbox.FailureUnavailable, 0)
			<-fault.Hit
		}
		fails(t, consumer, e, outbox.FailureFailed, 1)
		checkLeft(t, direct, e, left{attempts: 1, outcome: -1})
	})
}

// A killed connection is the database's affair.
func TestNothingIsCountedOfAKilledConnection(t *testing.T) {
	eachConsumer(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		killed := false
		consumer := report(db, func(ctx context.Context, tx *outbox.Tx, id string) error {
			if !killed {
				killed = true
				var connection int64
				if err := tx.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&connection); err != nil {
					return err
				}
				mustExec(t, db, "KILL ?", connection)
			}
			if err := tx.QueryRowContext(ctx, "SELECT 1").Scan(new(int)); err != nil {
				return err
			}
			return tally(ctx, tx, id)
		})
		e := envelope(t)
		fails(t, consumer, e, outbox.FailureUnavailable, 0)
		ends(t, consumer, e, outbox.Applied)
		checkLeft(t, db, e, left{attempts: -1, outcome: int(outbox.Applied), effects: 1})
	})
}

// While another transaction has the dedup row, the event waits and nothing is counted.
func TestLockedDedupRowIsNotCounted(t *testing.T) {
	eachConsumer(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		e := envelope(t)
		other, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, other, "INSERT INTO consumed_event (consumer_name, event_id, consumed_at) VALUES (?, ?, UTC_TIMESTAMP(6))",
			orderevents.ConsumerNameSalesReport, e.ID)
		consumer := report(impatient(t, server), tally)
		fails(t, consumer, e, outbox.FailureHeldBack, 0) // 1205
		short := patience()
		short.Timeout = time.Second
		fails(t, orderevents.NewSalesReport(db, effect(tally), &upcasts.Upcaster{}, short), e, outbox.FailureHeldBack, 0) // its own time is over first
		if err := other.Rollback(); err != nil {
			t.Fatal(err)
		}
		checkLeft(t, db, e, left{attempts: -1, outcome: -1})
		ends(t, consumer, e, outbox.Applied)
	})
}

// So it is with the row of the aggregate's version.
func TestLockedVersionIsNotCounted(t *testing.T) {
	eachState(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		consumer := stateConsumer(impatient(t, server), keepState(t))
		ends(t, consumer, versionOf(t, "1", 1), outbox.Applied)
		other, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, other, `UPDATE consumed_version SET version = 9
			WHERE consumer_name = 'order-state' AND aggregate_type = 'order' AND aggregate_id = '1'`)
		e := versionOf(t, "1", 2)
		fails(t, consumer, e, outbox.FailureHeldBack, 0)
		ends(t, consumer, versionOf(t, "2", 1), outbox.Applied) // other aggregates go on
		if err := other.Rollback(); err != nil {
			t.Fatal(err)
		}
		if n := count(t, db, "consumer_failure"); n != 0 {
			t.Errorf("%d failures are counted", n)
		}
		ends(t, consumer, e, outbox.Applied)
	})
}

// A handler that takes too long has failed: on a statement of its transaction, on
// anything else, and by a deadline of its own.
func TestTimeoutIsCounted(t *testing.T) {
	sleepIn := func(ctx context.Context, tx *outbox.Tx) error {
		_, err := tx.ExecContext(ctx, "DO SLEEP(1)") // with which the server goes on after the deadline
		return err
	}
	for name, c := range map[string]struct {
		timeout time.Duration
		do      effect
		reason  string
	}{
		"in a statement": {100 * time.Millisecond, func(ctx context.Context, tx *outbox.Tx, _ string) error { return sleepIn(ctx, tx) }, "not finished in its time"},
		"outside": {100 * time.Millisecond, func(ctx context.Context, _ *outbox.Tx, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}, "not finished in its time"},
		"and doesn't say so": {100 * time.Millisecond, func(ctx context.Context, _ *outbox.Tx, _ string) error {
			<-ctx.Done()
			return nil
		}, "not finished in its time"},
		"by itself": {time.Minute, func(ctx context.Context, tx *outbox.Tx, _ string) error {
			ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			return sleepIn(ctx, tx)
		}, "deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			eachConsumer(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
				cfg := patience()
				cfg.Timeout = c.timeout
				consumer := orderevents.NewSalesReport(db, c.do, &upcasts.Upcaster{}, cfg)
				e := envelope(t)
				counted := 0
				for deliveries := 0; ; deliveries++ {
					handling, err := consumer.Handle(t.Context(), e)
					var h *outbox.HandlingError
					if errors.As(err, &h) && h.Kind == outbox.FailureFailed {
						counted++
					}
					if handling == outbox.Parked {
						break
					}
					// Held back while the server is at the statement of the attempt before.
					if deliveries > 100 || h == nil {
						t.Fatalf("%v, %v", handling, err)
					}
				}
				if counted != 2 {
					t.Errorf("%d attempts were counted before the last", counted)
				}
				checkLeft(t, db, e, left{attempts: 3, parked: 1, outcome: int(outbox.Parked)})
				if p := parkedOf(t, consumer, e.ID); !strings.Contains(p.Reason, c.reason) {
					t.Errorf("reason %q", p.Reason)
				}
			})
		})
	}
}

// A stop in the middle of a handler counts nothing.
func TestStoppedHandlerIsNotCounted(t *testing.T) {
	eachConsumer(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		ctx, stop := context.WithCancel(t.Context())
		consumer := report(db, func(ctx context.Context, tx *outbox.Tx, id string) error {
			stop()
			return tally(ctx, tx, id)
		})
		e := envelope(t)
		_, err := consumer.Handle(ctx, e)
		var h *outbox.HandlingError
		if !errors.As(err, &h) || h.Kind != outbox.FailureHeldBack {
			t.Errorf("got %v", err)
		}
		checkLeft(t, db, e, left{attempts: -1, outcome: -1})
	})
}
