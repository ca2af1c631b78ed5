package integration

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/storesuite"
)

// The suite runs under connection settings that must make no difference: whether
// affected rows are those found or those changed, in which time zone the session
// and the driver are, whether the driver or the server puts the arguments in.
func TestStore(t *testing.T) {
	settings := map[string]func(*mysql.Config){
		"default": nil,
		"prepared": func(c *mysql.Config) {
			c.InterpolateParams = false
		},
		"other zone, found rows": func(c *mysql.Config) {
			c.ClientFoundRows = true
			c.ParseTime = true
			c.Params = map[string]string{"time_zone": "'-05:00'"}
		},
	}
	for _, flavor := range dbserver.Flavors() {
		for _, k := range kinds {
			for name, change := range settings {
				if k.deletes && name != "default" {
					continue // the statement that differs has nothing to do with them
				}
				t.Run(flavor.String()+"/"+k.name+"/"+name, func(t *testing.T) {
					t.Parallel()
					server := dbtest.New(t, flavor)
					server.Exec(t, k.schema()...)
					db := open(t, via(t, server, "", change))
					storesuite.Run(t, func(t *testing.T) storesuite.Harness { return k.harness(t, db) })
				})
			}
		}
	}
}

func (k kind) harness(t *testing.T, db *outbox.DB) storesuite.Harness {
	return k.harnessOf(t, db, db, db)
}

// harnessOf has a pool for each role: the test's own, that of writers and the relay's.
func (k kind) harnessOf(t *testing.T, db, writer, relay *outbox.DB) storesuite.Harness {
	mustExec(t, db, "DELETE FROM outbox_event")
	mustExec(t, db, "DELETE FROM outbox_failure")
	mustExec(t, db, "DELETE FROM outbox_relay")
	if k.ordered {
		mustExec(t, db, "DELETE FROM outbox_lane")
	}
	order, version := int64(1000), int64(0) // the first orders are for WriteTo
	write := func(t *testing.T, n int, order func() int64, opts ...outbox.WriteOptions) []uuid.UUID {
		t.Helper()
		ids := make([]uuid.UUID, n)
		outcome, err := outbox.InTx(t.Context(), writer, func(tx *outbox.Tx) error {
			for i := range ids {
				ids[i] = outbox.NewEventID()
				version++
				if err := k.write(t.Context(), tx, ids[i], order(), version, opts...); err != nil {
					return err
				}
			}
			return nil
		})
		if outcome != outbox.Committed {
			t.Fatal(outcome, err)
		}
		return ids
	}
	next := func() int64 { order++; return order }
	return storesuite.Harness{
		Store:   k.newStore(relay),
		Reopen:  func(*testing.T) outbox.Store { return k.newStore(relay) },
		Ordered: k.ordered,
		Deletes: k.deletes,
		Write:   func(t *testing.T, n int) []uuid.UUID { return write(t, n, next) },
		WriteTo: func(t *testing.T, aggregate, n int) []uuid.UUID {
			return write(t, n, func() int64 { return int64(aggregate) })
		},
		WriteLater: func(t *testing.T, notBefore time.Time) uuid.UUID {
			return write(t, 1, next, outbox.WriteOptions{NotBefore: notBefore})[0]
		},
		WriteOpen: func(t *testing.T) (uuid.UUID, func()) {
			id := outbox.NewEventID()
			tx, err := writer.BeginTx(context.WithoutCancel(t.Context()), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback() })
			if err := k.write(t.Context(), tx, id, next(), 1); err != nil {
				t.Fatal(err)
			}
			return id, func() {
				if err := tx.Commit(); err != nil {
					t.Error(err)
				}
			}
		},
		State: func(t *testing.T, id uuid.UUID) outbox.EventState {
			s, err := k.lookup(t.Context(), writer, id)
			switch {
			case errors.Is(err, sql.ErrNoRows):
				return outbox.EventState{EventID: id.String(), State: "GONE"}
			case err != nil:
				t.Fatalf("look up %s: %v", id, err)
			}
			return s
		},
		Bury: func(t *testing.T, id uuid.UUID) {
			mustExec(t, db, "UPDATE outbox_event SET status = 3 WHERE event_id = ?", id)
		},
		BreakFailures: func(t *testing.T) {
			mustExec(t, db, "CREATE TRIGGER broken BEFORE INSERT ON outbox_failure FOR EACH ROW SIGNAL SQLSTATE '45000'")
			t.Cleanup(func() {
				if _, err := db.Exec("DROP TRIGGER broken"); err != nil {
					t.Error(err)
				}
			})
		},
		Expire: func(t *testing.T) { k.expire(t, db) },
	}
}

// An event that is deleted leaves nothing of its failures.
func TestDeletedEventLeavesNoFailure(t *testing.T) {
	for _, k := range []kind{lanesDeleteKind, rowsDeleteKind} {
		t.Run(k.name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
				t.Parallel()
				server.Exec(t, k.schema()...)
				db := open(t, server.DSN)
				h := k.harness(t, db)
				h.Write(t, 2)
				owner := storesuite.NewOwner()
				for _, kind := range []outbox.OutcomeKind{outbox.OutcomeRetry, outbox.OutcomePublished} {
					b, err := h.Store.Claim(t.Context(), outbox.ClaimRequest{Owner: owner, Limit: 10, Lease: time.Minute})
					if err != nil || len(b.Events) != 2 {
						t.Fatalf("claimed %+v, %v", b, err)
					}
					outcomes := make([]outbox.EventOutcome, len(b.Events))
					for i, e := range b.Events {
						outcomes[i] = outbox.EventOutcome{Key: e.Key, Kind: kind, Reason: "why"}
					}
					if _, err := h.Store.Settle(t.Context(), b, outcomes); err != nil {
						t.Fatal(err)
					}
					if want := map[outbox.OutcomeKind]int{outbox.OutcomeRetry: 2}[kind]; count(t, db, "outbox_failure") != want {
						t.Errorf("%d failures are kept, want %d", count(t, db, "outbox_failure"), want)
					}
				}
			})
		})
	}
}

// A server that isn't strict lets a row in without its times. It must be handled
// like any other, not stop every claim.
func TestZeroDatesDoNotStopClaims(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		lax := open(t, via(t, server, "", func(c *mysql.Config) { c.Params = map[string]string{"sql_mode": "''"} }))
		mustExec(t, lax, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, event_version, schema_version, payload, headers)
			VALUES (?, 'order', '1', 'order.accepted', 1, 1, '{}', '{}')`, outbox.NewEventID())
		ids := writeEvents(t, db, 1)
		b, err := orderevents.NewStore(db).Claim(t.Context(), outbox.ClaimRequest{Owner: storesuite.NewOwner(), Limit: 10, Lease: time.Minute})
		if err != nil || len(b.Events) != 2 || b.Events[1].Envelope.ID != ids[0] {
			t.Errorf("claimed %+v, %v", b, err)
		}
	})
}
