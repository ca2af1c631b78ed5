package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/ddl"
	"github.com/outboxgen/outboxgen/internal/dsn"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// world is a service with some of everything, and its page.
type world struct {
	t      *testing.T
	server dbtest.Database
	db     *outbox.DB
	ops    *ops.Service
	report *outbox.Consumer
	fail   error // what the consumer's handler ends with
	done   map[string]int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, server: dbtest.New(t, dbserver.MariaDB), done: map[string]int{}}
	orders, err := os.ReadFile("../../example/schema/orders.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range ddl.Split(string(orders)) {
		w.server.Exec(t, s.SQL)
	}
	w.server.Exec(t, orderevents.Schema()...)
	if w.db, err = mysqldb.Open(w.server.DSN); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	m, problems := spec.Load("../../events.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	pool, err := dsn.Open(w.server.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	if w.ops, err = ops.New(m, ops.Databases{Outbox: pool}); err != nil {
		t.Fatal(err)
	}
	handler := reportHandler(func(_ context.Context, id string) error {
		if w.fail != nil {
			return w.fail
		}
		w.done[id]++
		return nil
	})
	w.report = orderevents.NewSalesReport(w.db, handler, &upcasts.Upcaster{}, &outbox.ConsumerConfig{Attempts: 1, Logger: slog.New(slog.DiscardHandler)})
	return w
}

// reportHandler handles what sales-report handles.
type reportHandler func(ctx context.Context, id string) error

func (h reportHandler) HandleOrderAccepted(ctx context.Context, _ *outbox.Tx, m outbox.Message[orderevents.OrderAccepted]) error {
	return h(ctx, m.EventID().String())
}

func accepted(order, version int64) orderevents.OrderAccepted {
	return orderevents.OrderAccepted{
		OrderID: order, OrderVersion: version, TenantID: 7, Lines: []orderevents.LineItem{},
		Total: orderevents.Money{Amount: decimal.RequireFromString("10.00"), Currency: orderevents.CurrencyEUR},
	}
}

// write writes n events, each of an order of its own, the first of them that order.
func (w *world) write(order int64, n int) []uuid.UUID {
	w.t.Helper()
	ids := make([]uuid.UUID, n)
	_, err := outbox.InTx(w.t.Context(), w.db, func(tx *outbox.Tx) error {
		for i := range ids {
			ids[i] = outbox.NewEventID()
			if err := orderevents.WriteOrderAccepted(w.t.Context(), tx, ids[i], accepted(order+int64(i), 1)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return ids
}

// settle claims what is due, and ends it.
func (w *world) settle(kind outbox.OutcomeKind, reason string) {
	w.t.Helper()
	store, owner := orderevents.NewStore(w.db), outbox.Owner{ID: outbox.NewEventID(), Host: "relay-1", PID: 4711}
	for {
		b, err := store.Claim(w.t.Context(), outbox.ClaimRequest{Owner: owner, Limit: 500, Lease: time.Minute})
		if err != nil {
			w.t.Fatal(err)
		}
		if len(b.Events) == 0 {
			break
		}
		outcomes := make([]outbox.EventOutcome, len(b.Events))
		for i := range outcomes {
			outcomes[i] = outbox.EventOutcome{Key: b.Events[i].Key, Kind: kind}
			if kind == outbox.OutcomeDead {
				outcomes[i].Failure, outcomes[i].Reason = outbox.FailureRejected, reason
			}
		}
		if _, err := store.Settle(w.t.Context(), b, outcomes); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := store.Release(w.t.Context(), owner); err != nil {
		w.t.Fatal(err)
	}
}

// dead makes n dead events.
func (w *world) dead(order int64, n int, reason string) []uuid.UUID {
	w.t.Helper()
	ids := w.write(order, n)
	w.settle(outbox.OutcomeDead, reason)
	return ids
}

// park parks an event that was published.
func (w *world) park(id uuid.UUID, order int64, reason string) {
	w.t.Helper()
	w.fail = outbox.Permanent(errors.New(reason))
	defer func() { w.fail = nil }()
	if got, err := w.report.Handle(w.t.Context(), w.envelope(id, order)); got != outbox.Parked || err != nil {
		w.t.Fatalf("got %v, %v", got, err)
	}
}

func (w *world) envelope(id uuid.UUID, order int64) outbox.Envelope {
	data, err := json.Marshal(accepted(order, 1))
	if err != nil {
		w.t.Fatal(err)
	}
	return outbox.Envelope{
		ID: id, Source: orderevents.Service, Type: orderevents.EventTypeOrderAccepted, AggregateType: "order",
		AggregateID: fmt.Sprint(order), AggregateVersion: 1, SchemaVersion: 2, Data: data,
	}
}

// Values that would break a page that believed them.
var hostile = []string{
	`<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`,
	"safe\u202egpj.exe\u2066\x1b[31mred\x00end",
	strings.Repeat("W", 10_000),
	strings.Repeat("👩‍👩‍👧", 40) + "Z̷̢̡͚̬a̶̛͘l̸̢͝g̷͇̈o̶",
}

// everything fills the tables with events in all states, hostile values among them.
func (w *world) everything() (published, parked uuid.UUID) {
	w.t.Helper()
	w.write(100, 60)
	w.settle(outbox.OutcomePublished, "")
	ids := w.write(200, 6)
	w.settle(outbox.OutcomePublished, "")
	published, parked = ids[0], ids[1]
	if got, err := w.report.Handle(w.t.Context(), w.envelope(published, 200)); got != outbox.Applied || err != nil {
		w.t.Fatal(got, err)
	}
	for i, id := range ids[1:] {
		w.park(id, 201+int64(i), "no rate for the currency "+hostile[i%len(hostile)])
	}
	w.dead(300, 55, "the broker refused it: message too large")
	for i, value := range hostile {
		w.hostileDead(value, int64(i))
	}
	w.write(500, 3)
	w.server.Exec(w.t, "INSERT INTO outbox_relay (owner, host, pid, started_at, alive_until) VALUES ('"+outbox.NewEventID().String()+"', 'relay-1', 4711, UTC_TIMESTAMP(6) - INTERVAL 3 HOUR, UTC_TIMESTAMP(6) + INTERVAL 1 HOUR)",
		"UPDATE outbox_lane SET lease_owner = (SELECT owner FROM outbox_relay LIMIT 1), lease_until = UTC_TIMESTAMP(6) + INTERVAL 20 MINUTE WHERE lane < 40")
	return published, parked
}

// hostileDead makes a dead event whose aggregate and reason are a value, as long as the columns are.
func (w *world) hostileDead(value string, order int64) {
	w.t.Helper()
	id := w.dead(400+order, 1, value)[0]
	_, err := w.db.ExecContext(w.t.Context(), "UPDATE outbox_event SET aggregate_id = LEFT(?, 128) WHERE event_id = ?", value, id.String())
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.db.ExecContext(w.t.Context(), "UPDATE outbox_failure SET reason = LEFT(?, 1000) WHERE event_id = ?", value, id.String()); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.db.ExecContext(w.t.Context(), "INSERT INTO outbox_audit (happened_at, operation, operator, consumer_name, event_id, detail) VALUES (UTC_TIMESTAMP(6), 'dead.redrive', ?, '', ?, LEFT(?, 1024))",
		string([]rune(value)[:min(60, len([]rune(value)))]), id.String(), value); err != nil {
		w.t.Fatal(err)
	}
}

// serve serves the page of a world, and returns its address.
func (w *world) serve(write bool) string {
	w.t.Helper()
	return serve(w.t, Config{Source: w.ops, AllowWrite: write, PlanText: planText})
}

func planText(verb string, plan ops.Plan) string {
	return fmt.Sprintf("%d events would be %s", len(plan.Events), verb)
}

func serve(t *testing.T, cfg Config) string {
	t.Helper()
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(cfg)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s.URL(l)
}
