package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/example/schema"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/dsn"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

var allKinds = []kind{lanesKind, rowsKind, lanesDeleteKind, rowsDeleteKind}

// reconciling are the example's events and consumers, on a kind's outbox.
func reconciling(t testing.TB, k kind, dataSource string) *ops.Service {
	t.Helper()
	m, problems := spec.Load("../../events.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if !k.ordered {
		m.Outbox.Ordering = spec.OrderingNone
	}
	if k.deletes {
		m.Outbox.KeepPublished = 0
	}
	pool, err := dsn.Open(dataSource)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	s, err := ops.New(m, ops.Databases{Outbox: pool})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// placed is an order with its event, an hour ago.
func (k kind) placed(t testing.TB, db *outbox.DB, opts ...outbox.WriteOptions) uuid.UUID {
	t.Helper()
	id := outbox.NewEventID()
	outcome, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
		order, err := insertOrder(t.Context(), tx, 1, id.String(), id)
		if err != nil {
			return err
		}
		return k.write(t.Context(), tx, id, order, 1, opts...)
	})
	if outcome != outbox.Committed {
		t.Fatal(err)
	}
	return id
}

// consumed writes a dedup row.
func consumed(t testing.TB, db *outbox.DB, consumer string, id uuid.UUID, outcome outbox.Handling) {
	t.Helper()
	mustExec(t, db, "INSERT INTO consumed_event (consumer_name, event_id, outcome, consumed_at) VALUES (?, ?, ?, UTC_TIMESTAMP(6))", consumer, id.String(), outcome)
}

// published does what a relay does: publishes, and marks.
func (k kind) published(t testing.TB, db *outbox.DB, ids ...uuid.UUID) {
	t.Helper()
	for _, id := range ids {
		if k.deletes {
			mustExec(t, db, "DELETE FROM outbox_event WHERE event_id = ?", id.String())
		} else {
			mustExec(t, db, "UPDATE outbox_event SET status = 2, published_at = UTC_TIMESTAMP(6) WHERE event_id = ?", id.String())
		}
	}
}

// instant are options under which a microsecond is too long.
func instant(to time.Duration) ops.ReconcileOptions {
	return ops.ReconcileOptions{From: time.Now().Add(-time.Hour), To: time.Now().Add(to), PublishDelay: time.Microsecond, ApplyDelay: time.Microsecond}
}

func findingsOf(t testing.TB, s *ops.Service, o ops.ReconcileOptions) []string {
	t.Helper()
	report, err := s.Reconcile(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, f := range report.Findings {
		list = append(list, fmt.Sprintf("%s %s %s", f.Check, f.EventID, f.Consumer))
	}
	slices.Sort(list)
	if int(report.Differences()) != len(list) {
		t.Errorf("%d differences are counted, %d listed", report.Differences(), len(list))
	}
	return list
}

// Every check, on every kind of outbox, with settings of the driver that change how times are read.
func TestReconcileChecks(t *testing.T) {
	for _, k := range allKinds {
		t.Run(k.name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
				t.Parallel()
				server.Exec(t, schema.Statements()...)
				server.Exec(t, k.schema()...)
				db := open(t, server.DSN)
				cfg := server.Config()
				cfg.ParseTime = true
				cfg.Params = map[string]string{"time_zone": "'-05:00'"}
				s := reconciling(t, k, cfg.FormatDSN())

				good, pending, _, dead, lost, lagging, parked, ghost := k.placed(t, db), k.placed(t, db), k.placed(t, db, outbox.WriteOptions{NotBefore: time.Now().Add(time.Hour)}),
					k.placed(t, db), k.placed(t, db), k.placed(t, db), k.placed(t, db), k.placed(t, db)
				mustExec(t, db, "UPDATE outbox_event SET status = 3 WHERE event_id = ?", dead.String())
				mustExec(t, db, "INSERT INTO outbox_failure (event_id, kind, reason, failed_at) VALUES (?, 'rejected', 'too large', UTC_TIMESTAMP(6))", dead.String())
				k.published(t, db, good, lagging, parked)
				for _, id := range []uuid.UUID{good, lagging} {
					consumed(t, db, planner, id, outbox.Applied)
				}
				consumed(t, db, salesReport, good, outbox.Skipped)
				consumed(t, db, salesReport, parked, outbox.Parked)
				consumed(t, db, planner, parked, outbox.Discarded)
				if !k.ordered { // being published
					mustExec(t, db, "UPDATE outbox_event SET lease_owner = 'x', lease_token = 1, lease_until = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, available_at = lease_until WHERE event_id = ?", k.placed(t, db).String())
				}
				mustExec(t, db, "DELETE FROM outbox_event WHERE event_id = ?", lost.String())
				mustExec(t, db, "DELETE FROM orders WHERE acceptance_event_id = ?", ghost.String())
				stray, message := outbox.NewEventID(), uuid.NewSHA1(uuid.Nil, []byte("no event"))
				consumed(t, db, planner, stray, outbox.Applied)
				consumed(t, db, salesReport, stray, outbox.Applied)
				consumed(t, db, planner, message, outbox.Parked)

				want := []string{
					"dead " + dead.String() + " ", "no-event " + lost.String() + " ", "no-source " + ghost.String() + " ",
					"not-applied " + lagging.String() + " " + salesReport, "not-published " + ghost.String() + " ", "not-published " + pending.String() + " ",
					"parked " + parked.String() + " " + salesReport,
				}
				if !k.deletes { // where events are deleted, dedup rows without one are as they should be
					want = append(want, "no-source "+stray.String()+" ")
				}
				slices.Sort(want)
				if diff := cmp.Diff(want, findingsOf(t, s, instant(0))); diff != "" {
					t.Error(diff)
				}

				// Within the delays all that can still happen is no difference.
				o := instant(0)
				o.PublishDelay, o.ApplyDelay = time.Hour, time.Hour
				keep := []string{"dead", "no-source", "parked"}
				if !k.deletes {
					keep = append(keep, "no-event")
				}
				for _, text := range findingsOf(t, s, o) {
					if check, _, _ := strings.Cut(text, " "); !slices.Contains(keep, check) {
						t.Error(text)
					}
				}

				// Narrowed to a consumer, and to a type.
				o = instant(0)
				o.Consumer = planner
				for _, text := range findingsOf(t, s, o) {
					if strings.Contains(text, salesReport) {
						t.Error(text)
					}
				}
				o.Event, o.Consumer = "order.cancelled", ""
				if list := findingsOf(t, s, o); len(list) > 0 {
					t.Error(list)
				}
			})
		})
	}
}

// An event whose id is no UUIDv7, or was made at another time, is compared where its
// business row is in the window.
func TestReconcileOddEventIDs(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		s := reconciling(t, lanesKind, server.DSN)
		odd := uuid.MustParse("5a3b1d0e-6d8c-4f5e-9a53-0f3f0c6b8f11")
		old := uuid.MustParse("01890000-0000-7000-8000-000000000001")
		for i, id := range []uuid.UUID{odd, old} {
			if err := db.PingContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
				return placeOrder(t.Context(), tx, 1, fmt.Sprint(i), id)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff([]string{"not-published " + old.String() + " ", "not-published " + odd.String() + " "}, findingsOf(t, s, instant(0))); diff != "" {
			t.Error(diff)
		}
		lanesKind.published(t, db, odd, old)
		consumed(t, db, planner, odd, outbox.Applied)
		consumed(t, db, salesReport, odd, outbox.Applied)
		consumed(t, db, planner, old, outbox.Applied)
		if diff := cmp.Diff([]string{"not-applied " + old.String() + " " + salesReport}, findingsOf(t, s, instant(0))); diff != "" {
			t.Error(diff)
		}
	})
}

// A comparison waits for no lock, and takes none: it goes on while every row is locked, and sees
// nothing of a transaction that is under way.
func TestReconcileWaitsForNobody(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		s := reconciling(t, lanesKind, server.DSN)
		id := lanesKind.placed(t, db)
		lanesKind.published(t, db, id)
		consumed(t, db, planner, id, outbox.Applied)
		consumed(t, db, salesReport, id, outbox.Applied)
		rollBack := errors.New("enough")
		_, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
			mustExec(t, tx, "UPDATE orders SET version = 2")
			mustExec(t, tx, "DELETE FROM consumed_event")
			mustExec(t, tx, "UPDATE outbox_event SET status = 3")
			if err := placeOrder(t.Context(), tx, 2, "under way", outbox.NewEventID()); err != nil {
				return err
			}
			if list := findingsOf(t, s, instant(0)); len(list) > 0 {
				t.Error(list)
			}
			return rollBack
		})
		if !errors.Is(err, rollBack) {
			t.Error(err)
		}
	})
}
