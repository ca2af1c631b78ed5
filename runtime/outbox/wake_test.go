package outbox_test

import (
	"errors"
	"testing"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func received(wake <-chan struct{}) bool {
	select {
	case <-wake:
		return true
	default:
		return false
	}
}

func TestWakes(t *testing.T) {
	_, db := newFakeDB()
	first, stopFirst := db.Wakes()
	second, stopSecond := db.Wakes()
	db.Wake()
	db.Wake() // never blocks, and is one with the other
	if !received(first) || !received(second) {
		t.Error("a subscriber was not woken")
	}
	if received(first) || received(second) {
		t.Error("two commits woke twice")
	}
	stopFirst()
	db.Wake()
	if received(first) || !received(second) {
		t.Error("stop is not the subscriber's own")
	}
	stopSecond()
	stopSecond() // does no harm
	db.Wake()
	if received(second) {
		t.Error("woken after stop")
	}
}

// ownTx is a service's own type around a transaction.
type ownTx struct {
	*outbox.Tx
	_ string // what else it holds
}

func TestInTxWakes(t *testing.T) {
	write := func(t *testing.T) func(tx outbox.Transaction) error {
		return func(tx outbox.Transaction) error {
			return outbox.Write(t.Context(), tx, record(goodPayload{}), insertRow)
		}
	}
	cases := map[string]struct {
		commit  error
		run     func(t *testing.T, tx *outbox.Tx) error
		outcome outbox.Outcome
		wakes   bool
	}{
		"an event is committed": {
			run:     func(t *testing.T, tx *outbox.Tx) error { return write(t)(tx) },
			outcome: outbox.Committed, wakes: true,
		},
		"an event is written in a type of the service's": {
			run:     func(t *testing.T, tx *outbox.Tx) error { return write(t)(ownTx{Tx: tx}) },
			outcome: outbox.Committed, wakes: true,
		},
		"it is not known whether an event was committed": {
			commit:  errConnection,
			run:     func(t *testing.T, tx *outbox.Tx) error { return write(t)(tx) },
			outcome: outbox.Unknown, wakes: true,
		},
		"the server refused the commit": {
			commit:  errDeadlock,
			run:     func(t *testing.T, tx *outbox.Tx) error { return write(t)(tx) },
			outcome: outbox.RolledBack,
		},
		"an event is rolled back": {
			run: func(t *testing.T, tx *outbox.Tx) error {
				if err := write(t)(tx); err != nil {
					return err
				}
				return errors.New("no stock")
			},
			outcome: outbox.RolledBack,
		},
		"the transaction is poisoned after the event": {
			run: func(t *testing.T, tx *outbox.Tx) error {
				err := write(t)(tx)
				tx.Poison(errors.New("no"))
				return err
			},
			outcome: outbox.RolledBack,
		},
		"no event is written": {
			run: func(t *testing.T, tx *outbox.Tx) error {
				_, err := tx.ExecContext(t.Context(), "UPDATE stock")
				return err
			},
			outcome: outbox.Committed,
		},
		"nothing is written": {
			run:     func(*testing.T, *outbox.Tx) error { return nil },
			outcome: outbox.Committed,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			fake, db := newFakeDB()
			fake.answer["COMMIT"] = c.commit
			wake, stop := db.Wakes()
			defer stop()
			outcome, _ := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
				err := c.run(t, tx)
				if received(wake) {
					t.Error("woken before the commit")
				}
				return err
			})
			if woken := received(wake); outcome != c.outcome || woken != c.wakes {
				t.Errorf("%v, woken: %v; want %v and %v", outcome, woken, c.outcome, c.wakes)
			}
		})
	}
}
