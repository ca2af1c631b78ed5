package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/outboxgen/outboxgen/example/orders"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest"
)

// failingTest is a test that is expected to end.
type failingTest struct {
	testing.TB
	text []string
}

type ended struct{}

func (f *failingTest) Helper()             {}
func (f *failingTest) Logf(string, ...any) {}
func (f *failingTest) Errorf(format string, a ...any) {
	f.text = append(f.text, fmt.Sprintf(format, a...))
}
func (f *failingTest) Fatalf(format string, a ...any) { f.Errorf(format, a...); panic(ended{}) }
func (f *failingTest) Fatal(a ...any)                 { f.Fatalf("%s", fmt.Sprint(a...)) }

// failure runs fn with a test of its own and returns what this said when it ended.
func failure(t *testing.T, fn func(testing.TB)) string {
	t.Helper()
	f := &failingTest{TB: t}
	func() {
		defer func() {
			if v := recover(); v != nil && v != (ended{}) {
				panic(v)
			}
		}()
		fn(f)
	}()
	if f.text == nil {
		t.Error("it should have failed")
	}
	return strings.Join(f.text, "\n")
}

func stocked(t *testing.T, server dbtest.Database) {
	t.Helper()
	server.Exec(t,
		"INSERT INTO stock (sku, available) VALUES ('apple', 1000), ('sold-out', 0)",
		"INSERT INTO notification_channel (tenant_id, channel) VALUES (1, 'mail')")
}

func orderFor(id, sku string) orders.Request {
	return orders.Request{
		TenantID: 1, RequestID: id, Currency: orderevents.CurrencyEUR,
		Lines: []orderevents.LineItem{{
			SKU: sku, Quantity: 2,
			UnitPrice: orderevents.Money{Amount: decimal.RequireFromString("1.50"), Currency: orderevents.CurrencyEUR},
		}},
	}
}

func TestRequireEvent(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		stocked(t, server)
		service := orders.NewService(db)
		outboxtest.RequireNoEvents(t, db)
		order, _, err := service.Accept(t.Context(), orderFor("r1", "apple"))
		if err != nil {
			t.Fatal(err)
		}
		got := outboxtest.RequireEvent[orderevents.OrderAccepted](t, db, order.EventID)
		if got.OrderID != order.ID || !got.Total.Amount.Equal(order.Total) || len(got.Lines) != 1 {
			t.Errorf("%+v", got)
		}
		outboxtest.RequireNoEvents(t, db, outboxtest.Filter{Type: orderevents.EventTypeOrderCancelled})
		outboxtest.RequireNoEvents(t, db, outboxtest.Filter{Type: orderevents.EventTypeOrderAccepted, AggregateID: "no such order"})
		if _, err := service.Cancel(t.Context(), 1, order.ID, orderevents.OrderCancelledReasonStock); err != nil {
			t.Fatal(err)
		}
		events := outboxtest.Events(t, db, outboxtest.Filter{AggregateType: "order", AggregateID: fmt.Sprint(order.ID)})
		if len(events) != 2 || events[0].ID != order.EventID || events[1].Type != orderevents.EventTypeOrderCancelled ||
			events[1].AggregateVersion != 2 || time.Since(events[1].Time).Abs() > time.Hour {
			t.Fatalf("%v", events)
		}

		// With `table_prefix` it is the same.
		mustExec(t, db, "RENAME TABLE outbox_event TO shop_outbox_event")
		outboxtest.RequireEvent[orderevents.OrderAccepted](t, db, order.EventID)
		for _, c := range []struct {
			name, want string
			call       func(testing.TB)
		}{
			{"no such event", "it has 2: order.accepted " + order.EventID.String(), func(t testing.TB) {
				outboxtest.RequireEvent[orderevents.OrderAccepted](t, db, outbox.NewEventID())
			}},
			{"another type", "it is no orderevents.OrderCancelled", func(t testing.TB) {
				outboxtest.RequireEvent[orderevents.OrderCancelled](t, db, order.EventID)
			}},
			{"a type with fewer keys", "more, or other, keys", func(t testing.TB) {
				outboxtest.RequireEvent[struct {
					OrderID int64 `json:"order_id"`
				}](t, db, order.EventID)
			}},
			{"some event", "should not have any event; it has 2: ", func(t testing.TB) { outboxtest.RequireNoEvents(t, db) }},
			{"an event of the type", "type order.cancelled; it has 1: ", func(t testing.TB) {
				outboxtest.RequireNoEvents(t, db, outboxtest.Filter{Type: orderevents.EventTypeOrderCancelled})
			}},
		} {
			if got := failure(t, c.call); !strings.Contains(got, c.want) {
				t.Errorf("%s: %q lacks %q", c.name, got, c.want)
			}
		}
	})
}

// writeOne commits an event without any business change.
func writeOne(t testing.TB, db *outbox.DB) error {
	_, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
		return orderevents.WriteOrderAccepted(t.Context(), tx, outbox.NewEventID(), acceptedPayload(99))
	})
	return err
}

// A business error leaves no event, and a mistake that leaves one is seen.
func TestRequireRollback(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		stocked(t, server)
		service := orders.NewService(db)
		tables := []string{"orders", "order_line", "stock"}
		accept := func(ctx context.Context, sku string) error {
			_, _, err := service.Accept(ctx, orderFor("r-"+sku, sku))
			return err
		}
		err := outboxtest.RequireRollback(t, db, func() error { return accept(t.Context(), "sold-out") }, tables...)
		if !errors.Is(err, orders.ErrOutOfStock) {
			t.Error(err)
		}

		anyError := errors.New("any")
		for _, c := range []struct {
			name, want string
			operation  func() error
		}{
			{"no error", "should have failed", func() error { return accept(t.Context(), "apple") }},
			{"an event in a transaction of its own", "left 1: order.accepted", func() error { return errors.Join(anyError, writeOne(t, db)) }},
			{"a change that stays", "changed the table stock", func() error {
				server.Exec(t, "UPDATE stock SET available = 7")
				return anyError
			}},
		} {
			got := failure(t, func(t testing.TB) { _ = outboxtest.RequireRollback(t, db, c.operation, tables...) })
			if !strings.Contains(got, c.want) {
				t.Errorf("%s: %q lacks %q", c.name, got, c.want)
			}
		}
		if got := failure(t, func(t testing.TB) {
			_ = outboxtest.RequireRollback(t, db, func() error { return anyError }, "no_such_table")
		}); !strings.Contains(got, "no_such_table") {
			t.Errorf("%q", got)
		}
	})
}
