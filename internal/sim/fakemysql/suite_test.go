package fakemysql_test

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/sim/fakemysql"
	lanesdelete "github.com/outboxgen/outboxgen/internal/variants/lanesdelete/gen/orderevents"
	rows "github.com/outboxgen/outboxgen/internal/variants/rows/gen/orderevents"
	rowsdelete "github.com/outboxgen/outboxgen/internal/variants/rowsdelete/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/storesuite"
)

func open(t *testing.T, s *fakemysql.Server) *outbox.DB {
	pool := sql.OpenDB(mysqldb.Guard(s.Connector(&fakemysql.Client{Name: t.Name()})))
	t.Cleanup(func() { _ = pool.Close() })
	return mysqldb.Wrap(pool)
}

func mustExec(t *testing.T, db *outbox.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), query, args...); err != nil {
		t.Fatal(err)
	}
}

// kind is a generated package.
type kind struct {
	name             string
	ordered, deletes bool
	schema           []string
	store            func(*outbox.DB) outbox.Store
	lookup           func(context.Context, outbox.DBTX, uuid.UUID) (outbox.EventState, error)
}

// The suite that real databases pass.
func TestStoreSuite(t *testing.T) {
	for _, k := range []kind{
		{"lanes", true, false, orderevents.Schema(), func(db *outbox.DB) outbox.Store { return orderevents.NewStore(db) }, orderevents.LookupEvent},
		{"lanes, deleted", true, true, lanesdelete.Schema(), func(db *outbox.DB) outbox.Store { return lanesdelete.NewStore(db) }, lanesdelete.LookupEvent},
		{"rows", false, false, rows.Schema(), func(db *outbox.DB) outbox.Store { return rows.NewStore(db) }, rows.LookupEvent},
		{"rows, deleted", false, true, rowsdelete.Schema(), func(db *outbox.DB) outbox.Store { return rowsdelete.NewStore(db) }, rowsdelete.LookupEvent},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			storesuite.Run(t, k.harness)
		})
	}
}

func (k kind) harness(t *testing.T) storesuite.Harness {
	var broken atomic.Bool
	server := fakemysql.New(fakemysql.Config{Wire: func(op fakemysql.Op) (w fakemysql.Wire) {
		if broken.Load() && op.Name == "RecordFailure" {
			w.Err = &mysql.MySQLError{Number: 1644, Message: "Unhandled user-defined exception condition"}
		}
		return w
	}})
	if err := server.Apply(k.schema...); err != nil {
		t.Fatal(err)
	}
	db := open(t, server)
	order, version := int64(1000), int64(0) // the first orders are for WriteTo
	next := func() int64 { order++; return order }
	write := func(ctx context.Context, tx outbox.Transaction, order int64, opts ...outbox.WriteOptions) (uuid.UUID, error) {
		version++
		id := outbox.NewEventID()
		// The tables of the kinds take the same columns.
		return id, orderevents.WriteOrderAccepted(ctx, tx, id, accepted(order, version), opts...)
	}
	writeN := func(t *testing.T, n int, order func() int64, opts ...outbox.WriteOptions) []uuid.UUID {
		t.Helper()
		ids := make([]uuid.UUID, n)
		outcome, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) (err error) {
			for i := range ids {
				if ids[i], err = write(t.Context(), tx, order(), opts...); err != nil {
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
	return storesuite.Harness{
		Store:   k.store(db),
		Reopen:  func(*testing.T) outbox.Store { return k.store(db) },
		Ordered: k.ordered, Deletes: k.deletes,
		Write: func(t *testing.T, n int) []uuid.UUID { return writeN(t, n, next) },
		WriteTo: func(t *testing.T, aggregate, n int) []uuid.UUID {
			return writeN(t, n, func() int64 { return int64(aggregate) })
		},
		WriteLater: func(t *testing.T, notBefore time.Time) uuid.UUID {
			return writeN(t, 1, next, outbox.WriteOptions{NotBefore: notBefore})[0]
		},
		WriteOpen: func(t *testing.T) (uuid.UUID, func()) {
			tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback() })
			id, err := write(t.Context(), tx, next())
			if err != nil {
				t.Fatal(err)
			}
			return id, func() {
				if err := tx.Commit(); err != nil {
					t.Error(err)
				}
			}
		},
		State: func(t *testing.T, id uuid.UUID) outbox.EventState {
			s, err := k.lookup(t.Context(), db, id)
			switch {
			case errors.Is(err, sql.ErrNoRows):
				return outbox.EventState{EventID: id.String(), State: "GONE"}
			case err != nil:
				t.Fatalf("look up %s: %v", id, err)
			}
			return s
		},
		Bury: func(t *testing.T, id uuid.UUID) {
			mustExec(t, db, "UPDATE outbox_event SET status = 3 WHERE event_id = ?", id.String())
		},
		BreakFailures: func(*testing.T) { broken.Store(true) },
		Expire: func(t *testing.T) {
			if k.ordered {
				mustExec(t, db, "UPDATE outbox_lane SET lease_until = UTC_TIMESTAMP() + INTERVAL MICROSECOND(CURRENT_TIMESTAMP(6)) MICROSECOND WHERE lease_owner <> ''")
				mustExec(t, db, "UPDATE outbox_event SET next_attempt_at = '1970-01-01' WHERE status = 0")
				return
			}
			mustExec(t, db, "UPDATE outbox_event SET lease_until = '1970-01-01', available_at = '1970-01-01 00:00:01' WHERE status = 0 AND lease_owner <> ''")
		},
	}
}

func accepted(order, version int64) orderevents.OrderAccepted {
	return orderevents.OrderAccepted{
		OrderID: order, OrderVersion: version, TenantID: 1, Lines: []orderevents.LineItem{},
		Total:      orderevents.Money{Amount: decimal.New(1, 0), Currency: orderevents.CurrencyEUR},
		AcceptedAt: outbox.Timestamp{Time: time.Unix(0, 0)},
	}
}
