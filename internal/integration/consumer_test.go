package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// effect is a consumer whose effect is a function.
type effect func(ctx context.Context, tx *outbox.Tx, id string) error

func (f effect) HandleOrderAccepted(ctx context.Context, tx *outbox.Tx, m outbox.Message[orderevents.OrderAccepted]) error {
	return f(ctx, tx, m.EventID().String())
}

// tally inserts a row of a table that lets repeats in, so that they would show.
func tally(ctx context.Context, tx *outbox.Tx, id string) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO tally (event_id) VALUES (?)", id)
	return err
}

func envelope(t *testing.T) outbox.Envelope {
	t.Helper()
	data, err := json.Marshal(acceptedPayload(1))
	if err != nil {
		t.Fatal(err)
	}
	return outbox.Envelope{
		ID: outbox.NewEventID(), Source: orderevents.Service, Type: orderevents.EventTypeOrderAccepted,
		AggregateType: "order", AggregateID: "1", AggregateVersion: 1, SchemaVersion: 2, Data: data,
	}
}

func eachConsumer(t *testing.T, fn func(t *testing.T, server dbtest.Database, db *outbox.DB)) {
	t.Helper()
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		mustExec(t, db, "CREATE TABLE tally (id BIGINT AUTO_INCREMENT PRIMARY KEY, event_id CHAR(36) NOT NULL)")
		mustExec(t, db, "CREATE TABLE biz (name VARCHAR(200) NOT NULL, CONSTRAINT uq_biz_name UNIQUE (name))")
		fn(t, server, db)
	})
}

func TestTenDeliveriesOneEffect(t *testing.T) {
	eachConsumer(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		consumer := orderevents.NewSalesReport(db, effect(tally), &upcasts.Upcaster{}, nil)
		for range 10 {
			e := envelope(t)
			before := consumer.Stats()
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					// A deadlock among those that wait is an error like any: delivered again.
					for {
						handling, err := consumer.Handle(t.Context(), e)
						if err == nil {
							if handling != outbox.Applied && handling != outbox.Duplicate {
								t.Errorf("got %v", handling)
							}
							return
						}
						if db.Classify(err).Fault != outbox.FaultDeadlock {
							t.Errorf("handle: %v", err)
							return
						}
					}
				})
			}
			wg.Wait()
			after := consumer.Stats()
			if a, d := after.Applied-before.Applied, after.Duplicates-before.Duplicates; a != 1 || d != 9 {
				t.Errorf("%d applied, %d absorbed; want 1 and 9", a, d)
			}
			if n := count(t, db, "tally WHERE event_id = ?", e.ID); n != 1 {
				t.Errorf("%d effects", n)
			}
			if n := count(t, db, "consumed_event WHERE event_id = ?", e.ID); n != 1 {
				t.Errorf("%d dedup rows", n)
			}
			if _, err := orderevents.LookupConsumed(t.Context(), db, consumer.Name(), e.ID); err != nil {
				t.Errorf("look up: %v", err)
			}
		}
	})
}

// Two consumers of one event each apply it.
func TestConsumersDoNotShareDedupRows(t *testing.T) {
	eachConsumer(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		e := envelope(t)
		report := orderevents.NewSalesReport(db, effect(tally), &upcasts.Upcaster{}, nil)
		planner := orderevents.NewNotificationPlanner(db, struct {
			effect
			cancelledUnused
		}{effect: tally}, &upcasts.Upcaster{}, nil)
		for _, c := range []*outbox.Consumer{report, planner} {
			if handling, err := c.Handle(t.Context(), e); handling != outbox.Applied {
				t.Errorf("%s: %v, %v", c.Name(), handling, err)
			}
		}
		if n := count(t, db, "tally"); n != 2 {
			t.Errorf("%d effects, want one for each consumer", n)
		}
	})
}

type cancelledUnused struct{}

func (cancelledUnused) HandleOrderCancelled(context.Context, *outbox.Tx, outbox.Message[orderevents.OrderCancelled]) error {
	return errors.New("not expected")
}

func TestOtherErrorsAreNoDuplicates(t *testing.T) {
	eachConsumer(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		const hostile = "x' for key 'consumed_event.uq_consumed_event_identity"
		exec := func(query string, args ...any) effect {
			return func(ctx context.Context, tx *outbox.Tx, id string) error {
				if err := tally(ctx, tx, id); err != nil {
					return err
				}
				_, err := tx.ExecContext(ctx, query, args...)
				return err
			}
		}
		mustExec(t, db, "INSERT INTO biz VALUES ('taken'), (?), ('uq_consumed_event_identity')", hostile)
		cases := map[string]effect{
			"1062 of another constraint":              exec("INSERT INTO biz VALUES ('taken')"),
			"1062 with our constraint in its value":   exec("INSERT INTO biz VALUES (?)", hostile),
			"1062 with our constraint as its value":   exec("INSERT INTO biz VALUES ('uq_consumed_event_identity')"),
			"foreign key":                             exec("INSERT INTO order_line (order_id, line_no, sku, quantity, unit_price) VALUES (-1, 1, 'x', 1, 1)"),
			"truncation":                              exec("INSERT INTO biz VALUES (?)", strings.Repeat("x", 201)),
			"missing table":                           exec("INSERT INTO no_such_table VALUES (1)"),
			"the dedup row's own 1062 in the handler": exec("INSERT INTO consumed_event (consumer_name, event_id, consumed_at) SELECT consumer_name, event_id, consumed_at FROM consumed_event LIMIT 1"),
		}
		for name, fn := range cases {
			consumer := orderevents.NewSalesReport(db, fn, &upcasts.Upcaster{}, nil)
			handling, err := consumer.Handle(t.Context(), envelope(t))
			if handling != outbox.NotHandled || err == nil {
				t.Errorf("%s: %v, %v; want an error, so that nothing is acknowledged", name, handling, err)
			}
			var failure *outbox.HandlingError
			if !errors.As(err, &failure) || strings.Contains(err.Error(), "taken") || strings.Contains(err.Error(), "xxxx") {
				t.Errorf("%s: the error's text holds a value: %v", name, err)
			}
			if s := consumer.Stats(); s.Duplicates != 0 || s.Errors != 1 {
				t.Errorf("%s: counted as %+v", name, s)
			}
			if d, e := count(t, db, "consumed_event"), count(t, db, "tally"); d != 0 || e != 0 {
				t.Errorf("%s: %d dedup rows, %d effects are left", name, d, e)
			}
		}
	})
}

func TestDroppedConnectionIsNoDuplicate(t *testing.T) {
	isDedup := func(s string) bool { return strings.Contains(s, "INSERT INTO consumed_event") }
	isEffect := func(s string) bool { return strings.Contains(s, "INSERT INTO tally") }
	cases := []struct {
		name    string
		action  mysqlproxy.Action
		match   func(string) bool
		applied bool // on the server, in spite of the error
	}{
		{"request of the dedup row", mysqlproxy.CutRequest, isDedup, false},
		{"reply to the dedup row", mysqlproxy.CutReply, isDedup, false},
		{"request of the effect", mysqlproxy.CutRequest, isEffect, false},
		{"reply to the effect", mysqlproxy.CutReply, isEffect, false},
		{"request of COMMIT", mysqlproxy.CutRequest, mysqlproxy.Is("COMMIT"), false},
		{"reply to COMMIT", mysqlproxy.CutReply, mysqlproxy.Is("COMMIT"), true},
	}
	eachConsumer(t, func(t *testing.T, server dbtest.Database, direct *outbox.DB) {
		proxy := mysqlproxy.Start(t, server.Addr)
		db := open(t, via(t, server, proxy.Addr(), func(c *mysql.Config) { c.Logger = &mysql.NopLogger{} }))
		for _, c := range cases {
			consumer := orderevents.NewSalesReport(db, effect(tally), &upcasts.Upcaster{}, nil)
			e := envelope(t)
			fault := proxy.At(c.action, c.match)
			handling, err := consumer.Handle(t.Context(), e)
			<-fault.Hit
			if handling != outbox.NotHandled || err == nil {
				t.Errorf("%s: %v, %v; want an error, so that nothing is acknowledged", c.name, handling, err)
			}
			var unknown *outbox.CommitUnknownError
			if isCommit := c.match("COMMIT"); errors.As(err, &unknown) != isCommit {
				t.Errorf("%s: %v", c.name, err)
			}

			// The redelivery finds out.
			want := outbox.Applied
			if c.applied {
				want = outbox.Duplicate
			}
			if handling, err := consumer.Handle(t.Context(), e); handling != want || err != nil {
				t.Errorf("%s, delivered again: %v, %v; want %v", c.name, handling, err, want)
			}
			if n := count(t, direct, "tally WHERE event_id = ?", e.ID); n != 1 {
				t.Errorf("%s: %d effects", c.name, n)
			}
		}
	})
}

// A redelivery while the first delivery's transaction is open waits for it, and
// is absorbed or applied by how that one ends.
func TestRedeliveryDuringASlowHandler(t *testing.T) {
	eachConsumer(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		for _, fails := range []bool{false, true} {
			running, finish := make(chan struct{}), make(chan struct{})
			first := orderevents.NewSalesReport(db, effect(func(ctx context.Context, tx *outbox.Tx, id string) error {
				close(running)
				<-finish
				if fails {
					return errors.New("changed its mind")
				}
				return tally(ctx, tx, id)
			}), &upcasts.Upcaster{}, nil)
			second := orderevents.NewSalesReport(db, effect(tally), &upcasts.Upcaster{}, nil)
			e := envelope(t)
			results := make(chan string, 2)
			go func() {
				h, err := first.Handle(context.WithoutCancel(t.Context()), e)
				results <- fmt.Sprint(h, err != nil)
			}()
			<-running
			done := make(chan struct{})
			go func() {
				defer close(done)
				h, err := second.Handle(context.WithoutCancel(t.Context()), e)
				if want := map[bool]outbox.Handling{false: outbox.Duplicate, true: outbox.Applied}[fails]; h != want || err != nil {
					t.Errorf("first fails %v: the second got %v, %v; want %v", fails, h, err, want)
				}
			}()
			waitForLockWait(t, db)
			close(finish)
			<-done
			<-results
			if n := count(t, db, "tally WHERE event_id = ?", e.ID); n != 1 {
				t.Errorf("first fails %v: %d effects", fails, n)
			}
		}
	})
}

// The server's words are in its own language; the constraint's name is not.
func TestDuplicateInOtherLanguages(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, _ *outbox.DB) {
		for _, locale := range []string{"en_US", "de_DE", "fr_FR", "ja_JP", "ru_RU"} {
			db := open(t, via(t, server, "", func(c *mysql.Config) {
				c.Params = map[string]string{"lc_messages": "'" + locale + "'"}
			}))
			consumer := orderevents.NewSalesReport(db, effect(func(context.Context, *outbox.Tx, string) error { return nil }), &upcasts.Upcaster{}, nil)
			e := envelope(t)
			if h, err := consumer.Handle(t.Context(), e); h != outbox.Applied {
				t.Fatalf("%s: %v, %v", locale, h, err)
			}
			if h, err := consumer.Handle(t.Context(), e); h != outbox.Duplicate {
				t.Errorf("%s: %v, %v", locale, h, err)
			}
		}
	})
}
