package outboxtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// shown is how many events a message lists.
const shown = 5

// RequireEvent returns the payload of the event that the outbox has under an id, and
// ends the test when there is none, or when it is no T. A pool sees what was committed.
//
//	accepted := outboxtest.RequireEvent[orderevents.OrderAccepted](t, db, order.EventID)
func RequireEvent[T any](t testing.TB, db outbox.DBTX, id uuid.UUID) T {
	t.Helper()
	events := read(t, db, Filter{EventID: id})
	if len(events) == 0 {
		t.Fatalf("the outbox has no event %s; it has %s", id, list(read(t, db, Filter{})))
	}
	payload, err := decode[T](events[0].Envelope)
	if err != nil {
		t.Fatalf("event %s of type %s: %v", id, events[0].Type, err)
	}
	return payload
}

// decode reads a payload. One of another type may well have the same required keys, so
// that T must be able to say all that is in it.
func decode[T any](e outbox.Envelope) (T, error) {
	payload, err := outbox.DecodePayload[T](e.Data)
	if err != nil {
		return payload, fmt.Errorf("it is no %T: %w", payload, err)
	}
	again, err := json.Marshal(payload)
	if err != nil {
		return payload, fmt.Errorf("it can't be encoded again as a %T", payload)
	}
	if !history.SameJSON(again, e.Data) {
		return payload, fmt.Errorf("it is no %T: its payload has more, or other, keys", payload)
	}
	return payload, nil
}

// Events returns the events in the outbox that a filter lets through, in the order in
// which they were written. The Source of an envelope is empty: no column has it.
func Events(t testing.TB, db outbox.DBTX, f Filter) []outbox.Envelope {
	t.Helper()
	events := read(t, db, f)
	envelopes := make([]outbox.Envelope, len(events))
	for i, e := range events {
		envelopes[i] = e.Envelope
	}
	return envelopes
}

// RequireNoEvents ends the test when the outbox has an event that the filter lets through:
// any at all without one.
func RequireNoEvents(t testing.TB, db outbox.DBTX, filter ...Filter) {
	t.Helper()
	var f Filter
	switch len(filter) {
	case 0:
	case 1:
		f = filter[0]
	default:
		t.Fatal("RequireNoEvents: more than one filter")
	}
	if events := read(t, db, f); len(events) > 0 {
		t.Fatalf("the outbox should not have %v; it has %s", f, list(events))
	}
}

// RequireRollback calls a business operation that must fail, such as an order for what is
// sold out, and ends the test when it doesn't, when it leaves an event behind, or
// when one of the tables is not as it was. It returns the operation's error. Nobody else may
// work on the database at the same time.
//
//	err := outboxtest.RequireRollback(t, db, func() error { return service.Order(ctx, "sold-out") }, "orders", "stock")
func RequireRollback(t testing.TB, db outbox.DBTX, operation func() error, tables ...string) error {
	t.Helper()
	before, sums := read(t, db, Filter{}), checksums(t, db, tables)
	known := make(map[uuid.UUID]bool, len(before))
	for _, e := range before {
		known[e.ID] = true
	}
	failure := operation()
	if failure == nil {
		t.Fatal("the operation should have failed")
	}
	var left []stored
	for _, e := range read(t, db, Filter{}) {
		if !known[e.ID] {
			left = append(left, e)
		}
	}
	if len(left) > 0 {
		t.Fatalf("the operation failed and left %s: is the event written with the transaction that is rolled back?", list(left))
	}
	for i, sum := range checksums(t, db, tables) {
		if sum != sums[i] {
			t.Fatalf("the operation failed and changed the table %s", tables[i])
		}
	}
	return failure
}

func read(t testing.TB, db outbox.DBTX, f Filter) []stored {
	t.Helper()
	events, err := storedEvents(testContext(t), db, f)
	if err != nil {
		t.Fatalf("read the outbox: %v", err)
	}
	return events
}

// testContext doesn't end with the test, so that cleanups may look, too.
func testContext(t testing.TB) context.Context { return context.WithoutCancel(t.Context()) }

func checksums(t testing.TB, db outbox.DBTX, tables []string) []string {
	t.Helper()
	sums := make([]string, len(tables))
	for i, table := range tables {
		var name string
		var sum *string // NULL for a table that isn't there
		err := db.QueryRowContext(testContext(t), "CHECKSUM TABLE "+quoteName(table)).Scan(&name, &sum)
		if err == nil && sum == nil {
			err = errors.New("it isn't there")
		}
		if err != nil {
			t.Fatalf("checksum of the table %s: %v", table, err)
		}
		sums[i] = *sum
	}
	return sums
}

func list(events []stored) string {
	if len(events) == 0 {
		return "none"
	}
	var lines []string
	for i, e := range events {
		if i == shown {
			lines = append(lines, "…")
			break
		}
		lines = append(lines, fmt.Sprintf("%s %s of %s/%s", e.Type, e.ID, e.AggregateType, e.AggregateID))
	}
	return fmt.Sprintf("%d: %s", len(events), strings.Join(lines, "; "))
}
