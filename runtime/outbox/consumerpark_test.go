package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// The last failure parks, in the transaction that counts it.
func TestParkedAtTheLastAttempt(t *testing.T) {
	p := newPlanner(returns(errors.New("no such customer")), nil)
	e := testEnvelope()
	for n := 1; n <= 2; n++ {
		if handling, err := p.Handle(t.Context(), e); handling != outbox.NotHandled || err == nil || len(p.inbox.parked) != 0 {
			t.Fatalf("attempt %d: %v, %v, parked %v", n, handling, err, p.inbox.parked)
		}
	}
	p.handle(t, e, outbox.Parked)
	sent := p.db.statements()
	want := []string{"BEGIN READ COMMITTED", "COUNT failure", "READ attempts", "INSERT dedup", "INSERT parked", "COMMIT"}
	if got := sent[len(sent)-len(want):]; !slices.Equal(got, want) {
		t.Errorf("sent %q at last, want %q", got, want)
	}
	row := p.inbox.parked[0]
	if row.Kind != "attempts" || row.Attempts != 3 || row.Reason != "no such customer" || row.EventType != e.Type || row.EventID != e.ID.String() {
		t.Errorf("%+v", row)
	}
	if last := p.inbox.dedup[len(p.inbox.dedup)-1]; last.Outcome != uint8(outbox.Parked) || last.EventID != e.ID.String() {
		t.Errorf("%+v", last)
	}
	if s := p.Stats(); s.Parked != 1 || s.Errors != 2 || s.Attempts != 3 {
		t.Errorf("%+v", s)
	}
	if log := p.log.String(); strings.Count(log, "an event was parked") != 1 || !strings.Contains(log, "kind=attempts") {
		t.Errorf("log %q", log)
	}
}

// What no repeat can help is parked at once.
func TestParkedAtOnce(t *testing.T) {
	permanent := returns(fmt.Errorf("charge: %w", outbox.Permanent(errors.New("the card is gone"))))
	for _, c := range []struct {
		kind, reason string
		do           effect
		spoil        func(*outbox.Envelope)
	}{
		{"permanent", "charge: the card is gone", permanent, func(*outbox.Envelope) {}},
		{"type", "order.deleted", succeed, func(e *outbox.Envelope) { e.Type = "order.deleted" }},
		{"version", "schema version 2", succeed, func(e *outbox.Envelope) { e.SchemaVersion = 2 }},
		{"payload", "not JSON", succeed, func(e *outbox.Envelope) { e.Data = []byte("{") }},
		{"payload", "does not fit", succeed, func(e *outbox.Envelope) { e.Data = []byte(`"secret"`) }},
		{"payload", "not JSON", succeed, func(e *outbox.Envelope) { e.Data = nil }},
		{"payload", "too long", succeed, func(e *outbox.Envelope) { e.AggregateID = strings.Repeat("x", 513) }},
		{"payload", "too long", succeed, func(e *outbox.Envelope) { e.AggregateType = strings.Repeat("x", 257) }},
	} {
		p := newPlanner(c.do, func(s *outbox.ConsumerSpec, _ *outbox.ConsumerConfig) { s.DropStale = true })
		e := testEnvelope()
		c.spoil(&e)
		p.handle(t, e, outbox.Parked)
		if len(p.inbox.parked) != 1 {
			t.Errorf("%s: parked %v", c.kind, p.inbox.parked)
			continue
		}
		row := p.inbox.parked[0]
		if row.Kind != c.kind || !strings.Contains(row.Reason, c.reason) || row.Attempts != 0 || row.Body == nil {
			t.Errorf("%+v, want %s", row, c.reason)
		}
		if strings.Contains(row.Reason+p.log.String(), "secret") {
			t.Errorf("a value is in %q or %q", row.Reason, p.log)
		}
		if p.inbox.attempts != 0 || p.Stats().Parked != 1 {
			t.Errorf("%s: %d counted, %+v", c.kind, p.inbox.attempts, p.Stats())
		}
	}
}

// Attempts that failed before are kept with the event.
func TestPermanentAfterFailures(t *testing.T) {
	answer := errors.New("not now")
	p := newPlanner(func(context.Context, *outbox.Tx, outbox.Message[map[string]any]) error { return answer }, nil)
	_, _ = p.Handle(t.Context(), testEnvelope())
	answer = outbox.Permanent(answer)
	p.handle(t, testEnvelope(), outbox.Parked)
	if row := p.inbox.parked[0]; row.Attempts != 1 || row.Kind != "permanent" {
		t.Errorf("%+v", row)
	}
}

func TestPermanentOfNothing(t *testing.T) {
	if outbox.Permanent(nil) != nil {
		t.Error("an error came of none")
	}
}

// An event that somebody else was done with meanwhile is not parked.
func TestParkingADuplicate(t *testing.T) {
	unknown := testEnvelope()
	unknown.Type = "order.deleted"
	calls := 0
	p := newPlanner(returns(errForeignKey), func(_ *outbox.ConsumerSpec, c *outbox.ConsumerConfig) { c.Attempts = 1 })
	p.inbox.before = func(_ context.Context, statement string) error {
		if statement == "INSERT dedup" {
			if calls++; calls > 1 {
				return errDuplicate
			}
		}
		return nil
	}
	p.handle(t, testEnvelope(), outbox.Duplicate) // the second INSERT is of the parking
	p.handle(t, unknown, outbox.Duplicate)
	if len(p.inbox.parked) != 0 || p.Stats().Duplicates != 2 || p.Stats().Parked != 0 {
		t.Errorf("parked %v, %+v", p.inbox.parked, p.Stats())
	}
}

// What can't be parked is neither acknowledged nor, when it is this event's fault
// alone, a reason to stop the others.
func TestParkingThatFails(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind outbox.FailureKind
	}{
		{errConnection, outbox.FailureUnavailable}, {errReadOnly, outbox.FailureUnavailable},
		{errDeadlock, outbox.FailureHeldBack}, {errLockTimeout, outbox.FailureHeldBack}, {errRefused, outbox.FailureFailed}, {errOtherUnique, outbox.FailureFailed},
	} {
		for _, statement := range []string{"READ attempts", "INSERT dedup", "INSERT parked"} {
			p := newPlanner(succeed, nil)
			p.db.answer[statement] = c.err
			e := testEnvelope()
			e.SchemaVersion = 9
			handling, err := p.Handle(t.Context(), e)
			var h *outbox.HandlingError
			if handling != outbox.NotHandled || !errors.As(err, &h) || h.Kind != c.kind || h.Attempts != 0 || !errors.Is(err, outbox.ErrNotHandled) {
				t.Errorf("%s, %v: %v, %v", statement, c.err, handling, err)
			}
			if slices.Contains(p.db.statements(), "COMMIT") || p.Stats().Parked != 0 {
				t.Errorf("%s, %v: committed, %+v", statement, c.err, p.Stats())
			}
		}
	}
}

func TestParkUnreadable(t *testing.T) {
	p := newPlanner(succeed, nil)
	m := outbox.Unreadable{
		Reference: "ORDERS/17", Headers: map[string]string{"X": "secret"}, Body: []byte{0, 1, 255},
		Reason: fmt.Errorf("%w: specversion is missing", outbox.ErrNotAnEvent),
	}
	if err := p.Park(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	row := p.inbox.parked[0]
	if row.Kind != "message" || !slices.Equal(row.Body, m.Body) || string(row.Headers) != `{"X":"secret"}` ||
		string(row.Attributes) != `{"reference":"ORDERS/17"}` || row.EventType != "" || !strings.Contains(row.Reason, "specversion") {
		t.Errorf("%+v", row)
	}
	if _, err := outbox.ParseEventID(row.EventID); err != nil || p.inbox.dedup[0].EventID != row.EventID || p.inbox.dedup[0].Outcome != 4 {
		t.Errorf("%v, dedup %+v", err, p.inbox.dedup)
	}
	if strings.Contains(p.log.String(), "secret") || p.Stats().Parked != 1 {
		t.Errorf("log %q, %+v", p.log, p.Stats())
	}
	p.db.answer["INSERT dedup"] = errDuplicate
	if err := p.Park(t.Context(), m); err != nil || len(p.inbox.parked) != 1 || p.Stats().Parked != 1 {
		t.Errorf("again: %v, %d parked, %+v", err, len(p.inbox.parked), p.Stats())
	}
	p.db.answer["INSERT dedup"] = errConnection
	err := p.Park(t.Context(), m)
	if !outbox.RedeliveryOf(err).Pause || !errors.Is(err, outbox.ErrNotAnEvent) {
		t.Errorf("without a database: %v", err)
	}
}

// A message is known again by its reference and body, or by all of it; it is another
// one for another consumer.
func TestIDsOfUnreadableMessages(t *testing.T) {
	id := func(consumer string, m outbox.Unreadable) string {
		p := newPlanner(succeed, func(s *outbox.ConsumerSpec, _ *outbox.ConsumerConfig) { s.Name = consumer })
		m.Reason = outbox.ErrNotAnEvent
		if err := p.Park(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		return p.inbox.parked[0].EventID
	}
	headers := map[string]string{"a": "1", "b": "2", "c": "3"}
	m := outbox.Unreadable{Reference: "S/1", Headers: headers, Body: []byte("x")}
	if id("a", m) != id("a", outbox.Unreadable{Reference: "S/1", Body: []byte("x")}) {
		t.Error("the reference is not enough")
	}
	plain := outbox.Unreadable{Headers: headers, Body: []byte("x")}
	for range 50 { // as often as it takes maps to change their order
		if id("a", plain) != id("a", outbox.Unreadable{Headers: maps.Clone(headers), Body: []byte("x")}) {
			t.Fatal("the same message has two ids")
		}
	}
	for name, other := range map[string]string{
		"another consumer":         id("b", m),
		"another reference":        id("a", outbox.Unreadable{Reference: "S/2", Body: []byte("x")}),
		"a stream made anew":       id("a", outbox.Unreadable{Reference: "S/1", Body: []byte("y")}),
		"no reference":             id("a", plain),
		"no reference, no headers": id("a", outbox.Unreadable{Body: []byte("x")}),
		"nothing":                  id("a", outbox.Unreadable{}),
	} {
		if other == id("a", m) {
			t.Errorf("%s has the same id", name)
		}
	}
}

// Headers that the database refuses keep nothing from being parked; anything else does,
// and costs no headers.
func TestParkedWithoutHeaders(t *testing.T) {
	headers := map[string]string{"tenant": "7"}
	park := map[string]func(planner) error{
		"a message": func(p planner) error {
			return p.Park(t.Context(), outbox.Unreadable{Reference: "S/1", Headers: headers, Body: []byte("x"), Reason: fmt.Errorf("%w: %s", outbox.ErrNotAnEvent, strings.Repeat("é", 2000))})
		},
		"an event": func(p planner) error {
			e := testEnvelope()
			e.Type, e.Headers = "order.deleted", headers
			_, err := p.Handle(t.Context(), e)
			return err
		},
	}
	for name, park := range park {
		p := newPlanner(succeed, nil)
		p.inbox.refuse = func(row outbox.InsertParkedParams) error {
			if string(row.Headers) != "{}" {
				return errRefused
			}
			return nil
		}
		if err := park(p); err != nil {
			t.Fatal(name, err)
		}
		row := p.inbox.parked[0]
		if !strings.HasSuffix(row.Reason, " (parked without its headers: database error 1406)") || len([]rune(row.Reason)) > 1024 || len(row.Body) == 0 {
			t.Errorf("%s: parked %+v", name, row)
		}
		for _, answer := range []error{errConnection, errReadOnly, errLockTimeout, errDuplicate} {
			p := newPlanner(succeed, nil)
			p.db.answer["INSERT parked"] = answer
			if err := park(p); err == nil || strings.Count(fmt.Sprint(p.db.statements()), "INSERT parked") != 1 {
				t.Errorf("%s, %v: %v, sent %q", name, answer, err, p.db.statements())
			}
		}
	}
}

// Without a reference, messages that differ in a byte, or in where it stands, have ids that
// differ, also where their headers are no UTF-8.
func TestIDsOfMessagesWithoutAReference(t *testing.T) {
	p := newPlanner(succeed, nil)
	seen := map[string]int{}
	for i, m := range []outbox.Unreadable{
		{}, {Body: []byte("x")},
		{Headers: map[string]string{"k": "\xff"}}, {Headers: map[string]string{"k": "\xfe"}}, {Headers: map[string]string{"k": "\uFFFD"}},
		{Headers: map[string]string{"\xff": "k"}}, {Headers: map[string]string{"\xfe": "k"}},
		{Headers: map[string]string{"a": "bc"}}, {Headers: map[string]string{"ab": "c"}}, {Headers: map[string]string{"a": "b"}, Body: []byte("c")},
		{Headers: map[string]string{"a": "", "b": ""}}, {Headers: map[string]string{"a": ""}, Body: []byte("\x01b\x00")},
	} {
		m.Reason = outbox.ErrNotAnEvent
		if err := p.Park(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		id := p.inbox.parked[i].EventID
		if before, twice := seen[id]; twice {
			t.Errorf("messages %d and %d have one id", before, i)
		}
		seen[id] = i
	}
}

// Reasons fit their column and are UTF-8.
func TestReasonsFit(t *testing.T) {
	p := newPlanner(returns(outbox.Permanent(errors.New("\xff"+strings.Repeat("é", 2000)))), nil)
	e := testEnvelope()
	p.handle(t, e, outbox.Parked)
	if reason := []rune(p.inbox.parked[0].Reason); len(reason) != 1024 || reason[0] != '\uFFFD' || reason[1023] != '…' {
		t.Errorf("%d characters: %q…", len(reason), string(reason[:3]))
	}
	e.Type = strings.Repeat("t", 300)
	p.handle(t, e, outbox.Parked)
	if n := len([]rune(p.inbox.parked[1].EventType)); n != 255 {
		t.Errorf("a type of %d characters", n)
	}
	var attributes map[string]string
	if err := json.Unmarshal(p.inbox.parked[1].Attributes, &attributes); err != nil || attributes["type"] != e.Type {
		t.Errorf("the whole type is not kept: %v", err)
	}
}

// The server's words quote values: a reason has its number and constraint only.
func TestReasonsHoldNoValues(t *testing.T) {
	for _, answer := range []error{errRefused, fmt.Errorf("insert job: %w", errRefused), outbox.Permanent(errRefused)} {
		p := newPlanner(returns(answer), func(_ *outbox.ConsumerSpec, c *outbox.ConsumerConfig) { c.Attempts = 1 })
		p.handle(t, testEnvelope(), outbox.Parked)
		if got := p.inbox.parked[0].Reason; got != "database error 1406" || strings.Contains(p.log.String(), "secret") {
			t.Errorf("%q, log %q", got, p.log)
		}
	}
}

// A panic counts, with its stack in the log and its value nowhere.
func TestPanicOfAHandler(t *testing.T) {
	p := newPlanner(panics, func(_ *outbox.ConsumerSpec, c *outbox.ConsumerConfig) { c.Attempts = 1 })
	p.handle(t, testEnvelope(), outbox.Parked)
	if p.inbox.parked[0].Reason != "panic with a string" || p.inbox.attempts != 1 {
		t.Errorf("%+v", p.inbox.parked[0])
	}
	if log := p.log.String(); !strings.Contains(log, "a handler panicked") || !strings.Contains(log, "consumerkind_test.go") || strings.Contains(log, "secret") {
		t.Errorf("log %q", log)
	}
	var none map[string]int
	p = newPlanner(func(context.Context, *outbox.Tx, outbox.Message[map[string]any]) error { none["x"] = 1; return nil }, nil)
	if _, err := p.Handle(t.Context(), testEnvelope()); err == nil || !strings.Contains(err.Error(), "assignment to entry in nil map") {
		t.Errorf("a runtime error: %v", err)
	}
}
