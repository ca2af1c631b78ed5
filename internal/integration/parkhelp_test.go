package integration

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// eachSettings runs fn on both databases, with each setting of the driver that
// changes how values are bound or read, or rows counted. db has the usual ones.
func eachSettings(t *testing.T, fn func(t *testing.T, server dbtest.Database, db *outbox.DB)) {
	t.Helper()
	for name, change := range map[string]func(*mysql.Config){
		"interpolated": func(c *mysql.Config) { c.InterpolateParams = true },
		"prepared":     func(c *mysql.Config) { c.InterpolateParams = false },
		"odd": func(c *mysql.Config) {
			c.ClientFoundRows = true
			c.ParseTime = true
			c.Params = map[string]string{"time_zone": "'-05:00'"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachConsumer(t, func(t *testing.T, server dbtest.Database, _ *outbox.DB) {
				fn(t, server, open(t, via(t, server, "", change)))
			})
		})
	}
}

// patience is a consumer's settings for tests: three attempts, and no log.
func patience() *outbox.ConsumerConfig {
	return &outbox.ConsumerConfig{
		Attempts: 3, Backoff: time.Millisecond, MaxBackoff: 2 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	}
}

// fails handles an event that is to fail, and checks how.
func fails(t *testing.T, c *outbox.Consumer, e outbox.Envelope, kind outbox.FailureKind, attempts int) {
	t.Helper()
	handling, err := c.Handle(t.Context(), e)
	var h *outbox.HandlingError
	if handling != outbox.NotHandled || !errors.As(err, &h) {
		t.Fatalf("got %v, %v; want an error", handling, err)
	}
	if h.Kind != kind || h.Attempts != attempts {
		t.Errorf("%v: %v with %d attempts, want %v with %d", err, h.Kind, h.Attempts, kind, attempts)
	}
}

// ends handles an event that is to be acknowledged.
func ends(t *testing.T, c *outbox.Consumer, e outbox.Envelope, want outbox.Handling) {
	t.Helper()
	if handling, err := c.Handle(t.Context(), e); handling != want || err != nil {
		t.Errorf("got %v, %v; want %v", handling, err, want)
	}
}

// left is what is in the consumers' tables of one event: attempts counted, parked
// events, the dedup row's outcome, effects. -1 is none.
type left struct{ attempts, parked, outcome, effects int }

func leftOf(t *testing.T, db *outbox.DB, e outbox.Envelope) left {
	t.Helper()
	number := func(column, rows string) int {
		t.Helper()
		n := -1
		err := db.QueryRowContext(t.Context(), "SELECT COALESCE(MAX("+column+"), -1) FROM "+rows+" WHERE event_id = ?", e.ID).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return left{
		attempts: number("attempts", "consumer_failure"), parked: count(t, db, "parked_event WHERE event_id = ?", e.ID),
		outcome: number("outcome", "consumed_event"), effects: count(t, db, "tally WHERE event_id = ?", e.ID),
	}
}

func checkLeft(t *testing.T, db *outbox.DB, e outbox.Envelope, want left) {
	t.Helper()
	if got := leftOf(t, db, e); got != want {
		t.Errorf("in the tables: %+v, want %+v", got, want)
	}
}

// report is the consumer sales-report with the settings of patience.
func report(db *outbox.DB, do effect) *outbox.Consumer {
	return orderevents.NewSalesReport(db, do, &upcasts.Upcaster{}, patience())
}
