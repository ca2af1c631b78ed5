package integration

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	rows "github.com/outboxgen/outboxgen/internal/variants/rows/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// orderState keeps the version of each order that it was given last.
type orderState func(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error

func (f orderState) HandleOrderAccepted(ctx context.Context, tx *outbox.Tx, m outbox.Message[rows.OrderAccepted]) error {
	return f(ctx, tx, m.Envelope)
}

func (f orderState) HandleOrderCancelled(ctx context.Context, tx *outbox.Tx, m outbox.Message[rows.OrderCancelled]) error {
	return f(ctx, tx, m.Envelope)
}

// keepState fails the test when an older version comes after a newer one.
func keepState(t *testing.T) orderState {
	return func(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error {
		var last int64
		id := []byte(e.AggregateType + "/" + e.AggregateID)
		err := tx.QueryRowContext(ctx, "SELECT version FROM state WHERE id = ? FOR UPDATE", id).Scan(&last)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if err == nil && e.AggregateVersion < last {
			t.Errorf("version %d of %q is applied after version %d", e.AggregateVersion, e.AggregateID, last)
		}
		if _, err := tx.ExecContext(ctx, "REPLACE INTO state (id, version) VALUES (?, ?)", id, e.AggregateVersion); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO applied (event_id) VALUES (?)", e.ID)
		return err
	}
}

func eachState(t *testing.T, fn func(t *testing.T, server dbtest.Database, db *outbox.DB)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		t.Parallel()
		server.Exec(t, rows.Schema()...)
		server.Exec(t, "CREATE TABLE state (id VARBINARY(600) PRIMARY KEY, version BIGINT NOT NULL)",
			"CREATE TABLE applied (n BIGINT AUTO_INCREMENT PRIMARY KEY, event_id CHAR(36) NOT NULL)")
		fn(t, server, open(t, server.DSN))
	})
}

func stateConsumer(db *outbox.DB, do orderState) *outbox.Consumer {
	return rows.NewOrderState(db, do, &outbox.ConsumerConfig{Logger: slog.New(slog.DiscardHandler)})
}

func versionOf(t *testing.T, id string, version int64) outbox.Envelope {
	t.Helper()
	data, err := json.Marshal(rows.OrderAccepted{
		OrderVersion: version, Lines: []rows.LineItem{}, Total: rows.Money{Amount: decimal.New(10, 0), Currency: rows.CurrencyEUR},
	})
	if err != nil {
		t.Fatal(err)
	}
	return outbox.Envelope{
		ID: outbox.NewEventID(), Source: rows.Service, Type: rows.EventTypeOrderAccepted,
		AggregateType: "order", AggregateID: id, AggregateVersion: version, SchemaVersion: 1, Data: data,
	}
}

// Fifty aggregates' versions in random order, by eight at a time, each event twice:
// the state ends at the highest version, nothing older is applied after it, and of
// every event it is on record whether it was applied or skipped.
func TestStaleEventsInRandomOrder(t *testing.T) {
	eachState(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		const aggregates, versions = 50, 8
		var events []outbox.Envelope
		for a := range aggregates {
			for v := range versions {
				e := versionOf(t, fmt.Sprint(a), int64(v+1))
				events = append(events, e, e)
			}
		}
		rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		consumer := stateConsumer(db, keepState(t))
		work := make(chan outbox.Envelope)
		skipped := make(chan uuid.UUID, len(events))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for e := range work {
					if deliver(t, consumer, e) == outbox.Skipped {
						skipped <- e.ID
					}
				}
			})
		}
		for _, e := range events {
			work <- e
		}
		close(work)
		wg.Wait()
		close(skipped)
		if n := count(t, db, "state WHERE version <> ?", versions); n > 0 || count(t, db, "state") != aggregates {
			t.Errorf("%d states are not at the last version", n)
		}
		if n := count(t, db, "consumed_version WHERE version = ? AND aggregate_type = 'order'", versions); n != aggregates {
			t.Errorf("%d aggregates are known to be at the last version", n)
		}
		if n := count(t, db, "consumed_event c JOIN applied a ON a.event_id = c.event_id WHERE c.outcome = 1"); n != count(t, db, "applied") || n != count(t, db, "consumed_event WHERE outcome = 1") {
			t.Errorf("%d events are on record as applied", n)
		}
		skips := 0
		for id := range skipped {
			skips++
			if count(t, db, "consumed_event WHERE event_id = ? AND outcome = 3", id) != 1 || count(t, db, "applied WHERE event_id = ?", id) != 0 {
				t.Errorf("%s was skipped and is not on record as that", id)
			}
		}
		all := count(t, db, "consumed_event")
		if all != aggregates*versions || skips != count(t, db, "consumed_event WHERE outcome = 3") || skips == 0 {
			t.Errorf("%d events on record, %d skipped", all, skips)
		}
		if s := consumer.Stats(); s.Applied+s.Skipped != int64(all) || s.Duplicates != int64(all) {
			t.Errorf("%+v", s)
		}
	})
}

// deliver hands an event over until it is acknowledged.
func deliver(t *testing.T, consumer *outbox.Consumer, e outbox.Envelope) outbox.Handling {
	for {
		handling, err := consumer.Handle(t.Context(), e)
		var h *outbox.HandlingError
		switch {
		case err == nil:
			return handling
		case errors.As(err, &h) && h.Kind == outbox.FailureHeldBack: // deadlocks, three times
		default:
			t.Errorf("%v: %v", e, err)
			return handling
		}
	}
}

// One fact may be told by several events: those of the version last applied are
// not older.
func TestEventsOfOneVersion(t *testing.T) {
	eachState(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		consumer := stateConsumer(db, keepState(t))
		for _, c := range []struct {
			version int64
			want    outbox.Handling
		}{{-3, outbox.Applied}, {-4, outbox.Skipped}, {5, outbox.Applied}, {5, outbox.Applied}, {4, outbox.Skipped}, {5, outbox.Applied}, {6, outbox.Applied}, {5, outbox.Skipped}} {
			ends(t, consumer, versionOf(t, "1", c.version), c.want)
		}
	})
}

// Ids that a text collation takes for the same are not.
func TestVersionsOfSimilarAggregates(t *testing.T) {
	for name, change := range map[string]func(*mysql.Config){
		"interpolated": func(c *mysql.Config) { c.InterpolateParams = true },
		"prepared":     func(c *mysql.Config) { c.InterpolateParams = false },
	} {
		t.Run(name, func(t *testing.T) {
			eachState(t, func(t *testing.T, server dbtest.Database, _ *outbox.DB) {
				db := open(t, via(t, server, "", change))
				consumer := stateConsumer(db, keepState(t))
				ids := []string{"abc", "abc ", "ABC", "äbc", "abc\x00", " abc", "'abc'", "", "𝄞", "ab\\c", string(make([]byte, 512))}
				for i, id := range ids {
					ends(t, consumer, versionOf(t, id, int64(100-i)), outbox.Applied)
				}
				for i, id := range ids {
					ends(t, consumer, versionOf(t, id, int64(99-i)), outbox.Skipped)
				}
				e := versionOf(t, "abc", 1)
				e.AggregateType = "order "
				ends(t, consumer, e, outbox.Applied)
				if n := count(t, db, "consumed_version"); n != len(ids)+1 {
					t.Errorf("%d aggregates", n)
				}
			})
		})
	}
}

// An id that is too long to compare versions by is parked: it neither stops the
// others nor is it taken for one that begins like it.
func TestAggregateTooLongForItsVersion(t *testing.T) {
	eachState(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		consumer := stateConsumer(db, keepState(t))
		ends(t, consumer, versionOf(t, string(make([]byte, 513)), 1), outbox.Parked)
		ends(t, consumer, versionOf(t, "1", 1), outbox.Applied)
	})
}

// What failed leaves no version behind, and what was parked is stale when it comes
// back after newer ones.
func TestParkedEventBecomesStale(t *testing.T) {
	eachState(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		keep, refused := keepState(t), outbox.NewEventID()
		consumer := stateConsumer(db, func(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error {
			if err := keep(ctx, tx, e); err != nil {
				return err
			}
			if e.ID == refused {
				return outbox.Permanent(errors.New("not now"))
			}
			return nil
		})
		e := versionOf(t, "1", 7)
		e.ID = refused
		ends(t, consumer, e, outbox.Parked)
		if n := count(t, db, "consumed_version"); n != 0 {
			t.Errorf("%d versions are left of what failed", n)
		}
		ends(t, consumer, versionOf(t, "1", 6), outbox.Applied)
		ends(t, consumer, versionOf(t, "1", 8), outbox.Applied)
		refused = uuid.Nil
		if handling, err := consumer.Redrive(t.Context(), e.ID); handling != outbox.Skipped || err != nil {
			t.Errorf("%v, %v", handling, err)
		}
		if count(t, db, "parked_event") != 0 || count(t, db, "consumed_event WHERE event_id = ? AND outcome = 3", e.ID) != 1 {
			t.Error("it is parked still, or not on record as skipped")
		}
	})
}
