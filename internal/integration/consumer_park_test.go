package integration

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// A header whose name MySQL's JSON can't hold keeps nothing from being parked.
func TestParkedWithAHugeHeader(t *testing.T) {
	eachSettings(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		consumer := report(db, tally)
		headers := map[string]string{strings.Repeat("k", 1<<16): "v"}
		m := outbox.Unreadable{Reference: "S/1", Headers: headers, Body: []byte("x"), Reason: outbox.ErrNotAnEvent}
		for range 2 {
			if err := consumer.Park(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		e := envelope(t)
		e.Headers, e.SchemaVersion = headers, 99
		ends(t, consumer, e, outbox.Parked)
		parked, err := consumer.ParkedEvents(t.Context(), 0, 10)
		if err != nil || len(parked) != 2 {
			t.Fatalf("%d parked, %v", len(parked), err)
		}
		for _, p := range parked {
			left := strings.HasSuffix(p.Reason, "(parked without its headers: database error 3151)")
			if kept := len(p.Envelope.Headers) == 1; kept == left || len(p.Envelope.Data) == 0 { // MariaDB keeps them
				t.Errorf("%s: %d headers, %q", p.Kind, len(p.Envelope.Headers), p.Reason)
			}
		}
	})
}

// An event that always fails is tried as often as it may, parked, and not handled
// again. Nothing of its attempts is left.
func TestFailingEventIsParked(t *testing.T) {
	eachSettings(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		calls := 0
		consumer := report(db, func(ctx context.Context, tx *outbox.Tx, id string) error {
			calls++
			return errors.Join(tally(ctx, tx, id), errors.New("no such customer"))
		})
		e := envelope(t)
		fails(t, consumer, e, outbox.FailureFailed, 1)
		checkLeft(t, db, e, left{attempts: 1, outcome: -1})
		fails(t, consumer, e, outbox.FailureFailed, 2)
		checkLeft(t, db, e, left{attempts: 2, outcome: -1})
		ends(t, consumer, e, outbox.Parked)
		want := left{attempts: 3, parked: 1, outcome: int(outbox.Parked)}
		checkLeft(t, db, e, want)
		ends(t, consumer, e, outbox.Duplicate)
		checkLeft(t, db, e, want)
		if calls != 3 {
			t.Errorf("the handler was called %d times", calls)
		}
		c, err := orderevents.LookupConsumed(t.Context(), db, consumer.Name(), e.ID)
		if age := time.Since(c.At); err != nil || c.Outcome != outbox.Parked || age < -time.Minute || age > time.Minute {
			t.Errorf("look up: %+v, %v", c, err)
		}
	})
}

// The last attempt is counted together with the parking, or neither is.
func TestCountedAndParkedTogether(t *testing.T) {
	for name, action := range cutActions {
		t.Run(name, func(t *testing.T) {
			eachConsumer(t, func(t *testing.T, server dbtest.Database, direct *outbox.DB) {
				proxy := mysqlproxy.Start(t, server.Addr)
				db := open(t, via(t, server, proxy.Addr(), nil))
				consumer := report(db, func(context.Context, *outbox.Tx, string) error { return errors.New("no such customer") })
				e := envelope(t)
				fails(t, consumer, e, outbox.FailureFailed, 1)
				fails(t, consumer, e, outbox.FailureFailed, 2)
				fault := proxy.AtCommit(action, mysqlproxy.Has("name: InsertParked "))
				fails(t, consumer, e, outbox.FailureUnavailable, 0)
				<-fault.Hit
				if action == mysqlproxy.CutReply {
					checkLeft(t, direct, e, left{attempts: 3, parked: 1, outcome: int(outbox.Parked)})
					ends(t, consumer, e, outbox.Duplicate)
				} else {
					await(t, direct, "consumer_failure WHERE attempts = 2") // and when the server has rolled back
					checkLeft(t, direct, e, left{attempts: 2, outcome: -1})
					ends(t, consumer, e, outbox.Parked)
				}
				checkLeft(t, direct, e, left{attempts: 3, parked: 1, outcome: int(outbox.Parked)})
			})
		})
	}
}

// Ten processes that fail at once are counted ten times, and park once.
func TestConcurrentFailures(t *testing.T) {
	eachConsumer(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		for _, attempts := range []int{100, 7} {
			cfg := patience()
			cfg.Attempts = attempts
			consumer := orderevents.NewSalesReport(db, effect(func(context.Context, *outbox.Tx, string) error { return errors.New("no") }), &upcasts.Upcaster{}, cfg)
			e := envelope(t)
			var counted, parked, absorbed atomic.Int64
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					for {
						handling, err := consumer.Handle(t.Context(), e)
						var h *outbox.HandlingError
						switch {
						case handling == outbox.Parked:
							parked.Add(1)
						case handling == outbox.Duplicate:
							absorbed.Add(1)
						case errors.As(err, &h) && h.Kind == outbox.FailureHeldBack:
							continue
						case errors.As(err, &h) && h.Kind == outbox.FailureFailed:
							counted.Add(1)
						default:
							t.Errorf("%v, %v", handling, err)
						}
						return
					}
				})
			}
			wg.Wait()
			want := left{attempts: 10, outcome: -1}
			if attempts == 7 {
				want = left{attempts: 7, parked: 1, outcome: int(outbox.Parked)}
			}
			checkLeft(t, db, e, want)
			if parked.Load() != int64(want.parked) || counted.Load() != int64(min(10, attempts-want.parked)) || counted.Load()+parked.Load()+absorbed.Load() != 10 {
				t.Errorf("of %d: %d counted, %d parked, %d absorbed", attempts, counted.Load(), parked.Load(), absorbed.Load())
			}
		}
	})
}

// Somebody has deleted the dedup row of a parked event: when it comes again and
// fails, it is parked as before, with the newer reason.
func TestParkedAgainWithoutItsDedupRow(t *testing.T) {
	eachSettings(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		consumer, e := parkOne(t, db, func(context.Context, *outbox.Tx, string) error {
			return outbox.Permanent(errors.New("still not"))
		})
		before := parkedOf(t, consumer, e.ID)
		mustExec(t, db, "DELETE FROM consumed_event")
		ends(t, consumer, e, outbox.Parked)
		ends(t, consumer, e, outbox.Duplicate)
		checkLeft(t, db, e, left{attempts: -1, parked: 1, outcome: int(outbox.Parked)})
		if p := parkedOf(t, consumer, e.ID); p.ID != before.ID || p.Reason != "still not" || !p.ParkedAt.After(before.ParkedAt) {
			t.Errorf("%+v, before %+v", p, before)
		}
		mustExec(t, db, "DELETE FROM consumed_event")
		applied := report(db, tally)
		ends(t, applied, e, outbox.Applied)
		if handling, err := applied.Redrive(t.Context(), e.ID); handling != outbox.Duplicate || err != nil {
			t.Errorf("redrive of an applied event: %v, %v", handling, err)
		}
		checkLeft(t, db, e, left{attempts: -1, outcome: int(outbox.Applied), effects: 1})
	})
}

// awkward are bytes that text columns, JSON or a driver's binding could change.
func awkward() []byte {
	all := make([]byte, 0, 1<<20)
	for len(all) < 1<<20 {
		for b := range 256 {
			all = append(all, byte(b))
		}
	}
	return append(all, "'\"\\\x00%_ \n\r\x1a/* -- é 𝄞 ?"...)
}

// What is parked comes back as it was, byte for byte.
func TestParkedEventComesBack(t *testing.T) {
	eachSettings(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		consumer := report(db, tally)
		var want []outbox.Envelope
		for i, data := range []json.RawMessage{
			awkward(), {}, nil, json.RawMessage(`{"b":1,"a":1.0,"n":12345678901234567890123,"a":2}`), json.RawMessage("\xff\x00"),
		} {
			e := envelope(t)
			e.Data, e.Type = data, "order.of\u2028a 'later' \\ build"
			e.Source, e.AggregateType, e.AggregateID = "é𝄞\"", `\u0041 `, "abc \x00' "
			e.AggregateVersion, e.SchemaVersion = -1<<63, 1<<31-1
			e.Time = time.Date(2026, 11, 30, 23, 59, 59, 999_999_000, time.UTC)
			if i > 0 {
				e.Headers = map[string]string{"a": `'"\`, "b": "é𝄞 %_", "": "empty", "c": ""}
			}
			ends(t, consumer, e, outbox.Parked)
			want = append(want, e)
		}
		var got []outbox.Envelope
		for after := int64(0); ; {
			page, err := consumer.ParkedEvents(t.Context(), after, 3)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range page {
				if p.EventID != p.Envelope.ID || p.Kind != "type" || p.Attempts != 0 || p.ID <= after || time.Since(p.ParkedAt).Abs() > time.Minute {
					t.Errorf("%+v", p)
				}
				after = p.ID
				got = append(got, p.Envelope)
			}
			if len(page) < 3 {
				break
			}
		}
		for i := range want {
			if i < len(got) && !bytes.Equal(want[i].Data, got[i].Data) {
				t.Errorf("body %d is another one", i)
			}
		}
		if diff := cmp.Diff(plain(want), plain(got)); diff != "" {
			t.Errorf("(-parked +read)\n%s", diff)
		}
		if other, err := orderevents.NewNotificationPlanner(db, nilPlanner{}, &upcasts.Upcaster{}, nil).ParkedEvents(t.Context(), 0, 10); len(other) != 0 || err != nil {
			t.Errorf("another consumer has %d of them, %v", len(other), err)
		}
	})
}

type nilPlanner struct {
	effect
	cancelledUnused
}

// plain is for cmp: envelopes print without their fields.
func plain(envelopes []outbox.Envelope) (out []string) {
	for _, e := range envelopes {
		out = append(out, fmt.Sprintf("%s %q %q %q %q %d %d %s %q", e.ID, e.Source, e.Type, e.AggregateType, e.AggregateID,
			e.AggregateVersion, e.SchemaVersion, e.Time, fmt.Sprint(e.Headers)))
	}
	return out
}

// A message that isn't an event is kept as it came, once, and can't be redriven.
func TestUnreadableMessageIsParked(t *testing.T) {
	eachSettings(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		consumer := report(db, tally)
		m := outbox.Unreadable{
			Reference: "ORDERS/17", Headers: map[string]string{"Ce-Id": "é'\\", "X": ""}, Body: awkward(),
			Reason: fmt.Errorf("%w: no id", outbox.ErrNotAnEvent),
		}
		for range 3 {
			if err := consumer.Park(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		for _, other := range []outbox.Unreadable{{Reference: "ORDERS/18", Body: m.Body}, {Headers: m.Headers}, {}} {
			other.Reason = m.Reason
			if err := consumer.Park(t.Context(), other); err != nil {
				t.Fatal(err)
			}
		}
		parked, err := consumer.ParkedEvents(t.Context(), 0, 100)
		if err != nil || len(parked) != 4 || consumer.Stats().Parked != 4 {
			t.Fatalf("%d are parked, %+v, %v", len(parked), consumer.Stats(), err)
		}
		p := parked[0]
		if p.Kind != "message" || !strings.Contains(p.Reason, "no id") || !bytes.Equal(p.Envelope.Data, m.Body) || cmp.Diff(p.Envelope.Headers, m.Headers) != "" {
			t.Errorf("%s, %q, headers %q, %d bytes", p.Kind, p.Reason, p.Envelope.Headers, len(p.Envelope.Data))
		}
		for _, p := range parked {
			if _, err := consumer.Redrive(t.Context(), p.EventID); !errors.Is(err, outbox.ErrUnreadable) {
				t.Errorf("redrive: %v", err)
			}
		}
		if n := count(t, db, "consumed_event WHERE outcome = 4"); n != 4 {
			t.Errorf("%d dedup rows", n)
		}
	})
}

// No text of the server, which quotes values, gets into what is kept or returned.
func TestParkedReasonHoldsNoValues(t *testing.T) {
	eachConsumer(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		mustExec(t, db, "INSERT INTO biz VALUES ('secret')")
		cfg := patience()
		cfg.Attempts = 1
		for want, do := range map[string]effect{
			"database error 1062, constraint uq_biz_name": func(ctx context.Context, tx *outbox.Tx, _ string) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO biz VALUES ('secret')")
				return fmt.Errorf("insert biz: %w", err)
			},
			`sql: Scan error on column index 0, name "name"`: func(ctx context.Context, tx *outbox.Tx, _ string) error {
				return tx.QueryRowContext(ctx, "SELECT name FROM biz").Scan(new(int))
			},
			"panic with a string": func(context.Context, *outbox.Tx, string) error { panic("secret") },
		} {
			e := envelope(t)
			ends(t, orderevents.NewSalesReport(db, do, &upcasts.Upcaster{}, cfg), e, outbox.Parked)
			for _, table := range []string{"parked_event", "consumer_failure"} {
				var reason string
				err := db.QueryRowContext(t.Context(), "SELECT reason FROM "+table+" WHERE event_id = ?", e.ID).Scan(&reason)
				if err != nil || reason != want {
					t.Errorf("%s: %q, want %q, %v", table, reason, want, err)
				}
			}
		}
	})
}

func TestLookUpOfWhatIsNotConsumed(t *testing.T) {
	eachConsumer(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		if _, err := orderevents.LookupConsumed(t.Context(), db, "x", outbox.NewEventID()); !errors.Is(err, sql.ErrNoRows) {
			t.Error(err)
		}
	})
}
