package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// parkedPlanner is a consumer that has parked an event, and handles the next ones with do.
func parkedPlanner(t *testing.T, e outbox.Envelope, do effect) planner {
	t.Helper()
	parking := true
	p := newPlanner(func(ctx context.Context, tx *outbox.Tx, m outbox.Message[map[string]any]) error {
		if parking {
			return outbox.Permanent(errors.New("not now"))
		}
		return do(ctx, tx, m)
	}, nil)
	p.handle(t, e, outbox.Parked)
	parking = false
	row := p.inbox.parkedRow()
	p.inbox.row = &row
	p.db.mu.Lock()
	p.db.sent = nil
	p.db.mu.Unlock()
	return p
}

func TestRedrive(t *testing.T) {
	e := testEnvelope()
	e.Time = time.Date(2026, 11, 30, 1, 2, 3, 4000, time.UTC)
	e.Headers = map[string]string{"tenant": "é\"", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	var got outbox.Envelope
	var trace outbox.Trace
	p := parkedPlanner(t, e, func(ctx context.Context, tx *outbox.Tx, m outbox.Message[map[string]any]) error {
		got = m.Envelope
		trace, _ = outbox.TraceOf(ctx)
		return insertJob(ctx, tx, m)
	})
	if handling, err := p.Redrive(t.Context(), e.ID); handling != outbox.Applied || err != nil {
		t.Fatalf("got %v, %v", handling, err)
	}
	want := []string{"BEGIN READ COMMITTED", "SELECT parked", "DELETE parked", "DELETE dedup", "INSERT dedup", "INSERT job", "COMMIT"}
	if sent := p.db.statements(); !slices.Equal(sent, want) {
		t.Errorf("sent %q, want %q", sent, want)
	}
	if !reflect.DeepEqual(got, e) || trace.Parent != e.Headers["traceparent"] {
		t.Errorf("the handler got\n%#v, trace %v, want\n%#v", got, trace, e)
	}
	if last := p.inbox.dedup[len(p.inbox.dedup)-1]; last.Outcome != uint8(outbox.Applied) || p.Stats().Applied != 1 {
		t.Errorf("%+v, %+v", last, p.Stats())
	}
}

// A redrive that fails leaves the event parked, with the new reason.
func TestRedriveThatFails(t *testing.T) {
	for name, do := range map[string]effect{
		"error": returns(errors.New("still not")), "permanent": returns(outbox.Permanent(errors.New("still not"))),
		"panic": panics, "timeout": waits,
	} {
		e := testEnvelope()
		p := parkedPlanner(t, e, do)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if name == "timeout" {
			p.Consumer = outbox.NewConsumer(p.newDB(), plannerSpec(p.inbox, do), &outbox.ConsumerConfig{Timeout: 300 * time.Millisecond})
		}
		handling, err := p.Redrive(ctx, e.ID)
		var h *outbox.HandlingError
		if handling != outbox.NotHandled || !errors.As(err, &h) || h.Kind != outbox.FailureFailed || h.Attempts != 1 {
			t.Errorf("%s: %v, %v", name, handling, err)
		}
		if len(p.inbox.failed) != 1 || p.inbox.failed[0].EventID != e.ID.String() || !strings.Contains(err.Error(), p.inbox.failed[0].Reason) {
			t.Errorf("%s: noted %+v of %v", name, p.inbox.failed, err)
		}
		sent := p.db.statements()
		if commit := slices.Index(sent, "COMMIT"); commit < slices.Index(sent, "FAIL parked") {
			t.Errorf("%s: sent %q", name, sent)
		}
		if name == "panic" && !strings.Contains(p.log.String(), "a handler panicked") {
			t.Errorf("log %q", p.log)
		}
	}
}

// newDB is another pool on the same fake.
func (p planner) newDB() *outbox.DB { return outbox.NewDB(sql.OpenDB(p.db), fakeClassifier{}) }

// An event that this build can't decode either stays parked.
func TestRedriveOfWhatIsStillUnknown(t *testing.T) {
	for name, spoil := range map[string]func(*outbox.ParkedRow){
		"type": func(r *outbox.ParkedRow) { r.Attributes = replace(r.Attributes, "order.accepted", "order.deleted") },
		"version": func(r *outbox.ParkedRow) {
			r.Attributes = replace(r.Attributes, `"schemaversion":"1"`, `"schemaversion":"2"`)
		},
		"payload":    func(r *outbox.ParkedRow) { r.Body = []byte("{") },
		"attributes": func(r *outbox.ParkedRow) { r.Attributes = []byte(`{"type":1}`) },
		"headers":    func(r *outbox.ParkedRow) { r.Headers = []byte(`[]`) },
		"no source":  func(r *outbox.ParkedRow) { r.Attributes = replace(r.Attributes, `"source":"orders"`, `"source":""`) },
		"id":         func(r *outbox.ParkedRow) { r.EventID = "x" },
	} {
		e := testEnvelope()
		p := parkedPlanner(t, e, insertJob)
		spoil(p.inbox.row)
		handling, err := p.Redrive(t.Context(), e.ID)
		var h *outbox.HandlingError
		if handling != outbox.NotHandled || !errors.As(err, &h) || h.Kind != outbox.FailureFailed || len(p.inbox.failed) != 1 {
			t.Errorf("%s: %v, %v, noted %v", name, handling, err, p.inbox.failed)
		}
		if slices.Contains(p.db.statements(), "INSERT job") {
			t.Errorf("%s: handled", name)
		}
		// It can be listed all the same, with what can be read.
		listed, err := p.ParkedEvents(t.Context(), 0, 10)
		if err != nil || len(listed) != 1 || string(listed[0].Envelope.Data) != string(p.inbox.row.Body) || listed[0].Kind != "permanent" {
			t.Errorf("%s: listed %#v, %v", name, listed, err)
		}
	}
}

func replace(json []byte, a, b string) []byte { return []byte(strings.Replace(string(json), a, b, 1)) }

// While the database can't be worked with nothing is noted.
func TestRedriveThatIsNobodysFault(t *testing.T) {
	for _, c := range []struct {
		statement string
		err       error
		kind      outbox.FailureKind
	}{
		{"BEGIN READ COMMITTED", errConnection, outbox.FailureUnavailable},
		{"SELECT parked", errConnection, outbox.FailureUnavailable},
		{"SELECT parked", errLockTimeout, outbox.FailureHeldBack},
		{"DELETE parked", errConnection, outbox.FailureUnavailable},
		{"DELETE dedup", errConnection, outbox.FailureUnavailable},
		{"INSERT dedup", errDeadlock, outbox.FailureHeldBack},
		{"INSERT job", errConnection, outbox.FailureUnavailable},
		{"COMMIT", errConnection, outbox.FailureUnavailable},
	} {
		e := testEnvelope()
		p := parkedPlanner(t, e, insertJob)
		p.db.answer[c.statement] = c.err
		_, err := p.Redrive(t.Context(), e.ID)
		var h *outbox.HandlingError
		if !errors.As(err, &h) || h.Kind != c.kind || len(p.inbox.failed) != 0 {
			t.Errorf("%s, %v: %v, noted %v", c.statement, c.err, err, p.inbox.failed)
		}
		if unknown := errors.As(err, new(*outbox.CommitUnknownError)); unknown != (c.statement == "COMMIT") {
			t.Errorf("%s, %v: commit unknown %v", c.statement, c.err, unknown)
		}
	}
}

// The reason of a failed redrive that can't be noted comes with the error, unharmed.
func TestRedriveThatCannotBeNoted(t *testing.T) {
	e := testEnvelope()
	p := parkedPlanner(t, e, returns(errors.New("still not")))
	p.db.answer["FAIL parked"] = errRefused
	_, err := p.Redrive(t.Context(), e.ID)
	var h *outbox.HandlingError
	if !errors.As(err, &h) || h.Attempts != 0 || !errors.Is(err, errRefused) || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

func TestRedriveOfNothing(t *testing.T) {
	p := newPlanner(insertJob, nil)
	if handling, err := p.Redrive(t.Context(), outbox.NewEventID()); handling != outbox.NotHandled || !errors.Is(err, outbox.ErrNotParked) {
		t.Errorf("not parked: %v, %v", handling, err)
	}
	if err := p.Park(t.Context(), outbox.Unreadable{Reference: "S/1", Reason: outbox.ErrNotAnEvent}); err != nil {
		t.Fatal(err)
	}
	row := p.inbox.parkedRow()
	p.inbox.row = &row
	listed, err := p.ParkedEvents(t.Context(), 0, 10)
	if err != nil || len(listed) != 1 || listed[0].Kind != "message" || listed[0].EventID.String() != row.EventID {
		t.Fatalf("listed %#v, %v", listed, err)
	}
	if handling, err := p.Redrive(t.Context(), listed[0].EventID); handling != outbox.NotHandled || !errors.Is(err, outbox.ErrUnreadable) {
		t.Errorf("a message: %v, %v", handling, err)
	}
	if len(p.inbox.failed) != 0 || slices.Contains(p.db.statements(), "DELETE parked") {
		t.Errorf("sent %q", p.db.statements())
	}
}

// A handler's own ErrNotParked is an error like any other.
func TestRedriveWithAnErrorOfAnotherRedrive(t *testing.T) {
	e := testEnvelope()
	p := parkedPlanner(t, e, returns(outbox.ErrNotParked))
	_, err := p.Redrive(t.Context(), e.ID)
	if !errors.As(err, new(*outbox.HandlingError)) || len(p.inbox.failed) != 1 {
		t.Errorf("%v, noted %v", err, p.inbox.failed)
	}
}

// An event that was applied after all, since somebody deleted its dedup row, is no
// longer parked.
func TestRedriveOfAnAppliedEvent(t *testing.T) {
	e := testEnvelope()
	p := parkedPlanner(t, e, insertJob)
	p.db.answer["INSERT dedup"] = errDuplicate
	if handling, err := p.Redrive(t.Context(), e.ID); handling != outbox.Duplicate || err != nil {
		t.Errorf("got %v, %v", handling, err)
	}
	sent := p.db.statements()
	if want := []string{"ROLLBACK", "BEGIN READ COMMITTED", "DELETE parked", "COMMIT"}; !slices.Equal(sent[len(sent)-4:], want) {
		t.Errorf("sent %q", sent)
	}
	p = parkedPlanner(t, e, insertJob)
	p.db.answer["INSERT dedup"], p.db.answer["COMMIT"] = errDuplicate, errConnection
	if handling, err := p.Redrive(t.Context(), e.ID); handling != outbox.NotHandled || !errors.As(err, new(*outbox.HandlingError)) {
		t.Errorf("without a commit: %v, %v", handling, err)
	}
}

func TestListOfParkedEventsFails(t *testing.T) {
	p := newPlanner(succeed, nil)
	p.db.answer["LIST parked"] = errConnection
	if _, err := p.ParkedEvents(t.Context(), 0, 0); !errors.Is(err, errConnection) {
		t.Error(err)
	}
}
