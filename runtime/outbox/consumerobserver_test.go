package outbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// told is what an observer of a consumer was told.
type told struct {
	begun   []outbox.Begun
	handled []outbox.Handled
	failed  []outbox.HandlingFailed
	values  []any // of the context's key
}

type toldKey struct{}

func (d *told) observer() *outbox.ConsumerObserver {
	return &outbox.ConsumerObserver{
		Begin: func(ctx context.Context, b outbox.Begun) context.Context {
			d.begun = append(d.begun, b)
			return context.WithValue(ctx, toldKey{}, len(d.begun))
		},
		Handled: func(ctx context.Context, h outbox.Handled) {
			d.handled, d.values = append(d.handled, h), append(d.values, ctx.Value(toldKey{}))
		},
		Failed: func(ctx context.Context, f outbox.HandlingFailed) {
			d.failed, d.values = append(d.failed, f), append(d.values, ctx.Value(toldKey{}))
		},
	}
}

func observedPlanner(do effect) (planner, *told) {
	d := &told{}
	return newPlanner(do, func(_ *outbox.ConsumerSpec, c *outbox.ConsumerConfig) { c.Observer = d.observer() }), d
}

func TestConsumerObserverIsToldOfEveryEnd(t *testing.T) {
	var inHandler any
	p, d := observedPlanner(func(ctx context.Context, _ *outbox.Tx, _ outbox.Message[map[string]any]) error {
		inHandler = ctx.Value(toldKey{})
		return nil
	})
	e := testEnvelope()
	e.Time = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e.Headers = map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	p.handle(t, e, outbox.Applied)
	if len(d.handled) != 1 || len(d.failed) != 0 {
		t.Fatalf("told %+v", d)
	}
	want := outbox.Handled{Consumer: "planner", Handling: outbox.Applied, EventType: e.Type, Created: e.Time, Took: d.handled[0].Took}
	if d.handled[0] != want || d.handled[0].Took <= 0 {
		t.Errorf("told %+v, want %+v", d.handled[0], want)
	}
	if b := d.begun[0]; b.EventID != e.ID.String() || b.Trace.Parent != e.Headers["traceparent"] || b.Redrive || b.Repeat != "" {
		t.Errorf("begun %+v", b)
	}
	if inHandler != 1 || d.values[0] != 1 {
		t.Errorf("Begin's context: the handler has %v, the end %v", inHandler, d.values[0])
	}
	e.Type = "order.unheard-of"
	p.handle(t, e, outbox.Parked)
	if h := d.handled[1]; h.Kind != "type" || h.Handling != outbox.Parked || h.EventType != e.Type {
		t.Errorf("told %+v of a parked event", h)
	}
	if err := p.Park(t.Context(), outbox.Unreadable{Reference: "x", Reason: outbox.ErrNotAnEvent}); err != nil {
		t.Fatal(err)
	}
	if h := d.handled[2]; h.Kind != "message" || h.EventType != "" || len(d.begun) != 2 {
		t.Errorf("told %+v of a message that isn't an event, begun %d", h, len(d.begun))
	}
}

func TestCausesOfDuplicates(t *testing.T) {
	stamped := testEnvelope()
	stamped.RepeatCause = outbox.RepeatLeaseExpired
	for name, c := range map[string]struct {
		ctx  context.Context
		e    outbox.Envelope
		want outbox.RepeatCause
	}{
		"nobody says":           {t.Context(), testEnvelope(), outbox.RepeatUnknown},
		"the relay":             {t.Context(), stamped, outbox.RepeatLeaseExpired},
		"the broker":            {outbox.ContextWithRedelivery(t.Context()), testEnvelope(), outbox.RepeatRedelivery},
		"both: broker's stands": {outbox.ContextWithRedelivery(t.Context()), stamped, outbox.RepeatRedelivery},
	} {
		t.Run(name, func(t *testing.T) {
			p, d := observedPlanner(succeed)
			p.db.answer["INSERT dedup"] = errDuplicate
			if h, err := p.Handle(c.ctx, c.e); h != outbox.Duplicate || err != nil {
				t.Fatalf("%v, %v", h, err)
			}
			if len(d.handled) != 1 || d.handled[0].Cause != c.want {
				t.Errorf("told %+v, want %q", d.handled, c.want)
			}
			p.db.answer["INSERT dedup"] = nil
			if _, err := p.Handle(c.ctx, c.e); err != nil || d.handled[1].Cause != "" {
				t.Errorf("an applied event has the cause %q (%v)", d.handled[1].Cause, err)
			}
		})
	}
}

func TestConsumerObserverIsToldOfFailures(t *testing.T) {
	p, d := observedPlanner(returns(errors.New("secret")))
	e := testEnvelope()
	for range 2 {
		if _, err := p.Handle(t.Context(), e); err == nil {
			t.Fatal("handled")
		}
	}
	if len(d.failed) != 2 || d.failed[0].Kind != outbox.FailureFailed || d.failed[0].EventType != e.Type || d.values[0] != 1 {
		t.Fatalf("told %+v", d.failed)
	}
	p.handle(t, e, outbox.Parked)
	if d.handled[0].Kind != "attempts" {
		t.Errorf("told %+v", d.handled)
	}
	row := p.inbox.parkedRow()
	p.inbox.row = &row
	if _, err := p.Redrive(t.Context(), e.ID); err == nil {
		t.Fatal("redriven")
	}
	if f := d.failed[2]; !f.Redrive || f.Kind != outbox.FailureFailed || f.EventType != e.Type {
		t.Errorf("told %+v of a redrive", f)
	}
	p.inbox.row = nil
	if _, err := p.Redrive(t.Context(), e.ID); !errors.Is(err, outbox.ErrNotParked) || len(d.failed) != 4 {
		t.Errorf("%v, told %d", err, len(d.failed))
	}
	p.db.answer["INSERT dedup"] = errConnection
	if _, err := p.Handle(t.Context(), e); err == nil || d.failed[4].Kind != outbox.FailureUnavailable {
		t.Errorf("%v, told %+v", err, d.failed[4])
	}
}

func TestConsumerObserverIsToldOfRedrives(t *testing.T) {
	fails := true
	p, d := observedPlanner(func(context.Context, *outbox.Tx, outbox.Message[map[string]any]) error {
		if fails {
			return outbox.Permanent(errors.New("no"))
		}
		return nil
	})
	e := testEnvelope()
	p.handle(t, e, outbox.Parked)
	row := p.inbox.parkedRow()
	p.inbox.row, fails = &row, false
	if h, err := p.Redrive(t.Context(), e.ID); h != outbox.Applied || err != nil {
		t.Fatalf("%v, %v", h, err)
	}
	if h := d.handled[1]; !h.Redrive || h.Handling != outbox.Applied || h.EventType != e.Type || !d.begun[1].Redrive || d.values[1] != 2 {
		t.Errorf("told %+v, begun %+v", h, d.begun)
	}
	p.db.answer["INSERT dedup"] = errDuplicate
	if h, err := p.Redrive(t.Context(), e.ID); h != outbox.Duplicate || err != nil || d.handled[2].Cause != outbox.RepeatRedrive {
		t.Errorf("%v, %v, told %+v", h, err, d.handled[2])
	}
}

func TestPanicsOfAConsumerObserverHarmNobody(t *testing.T) {
	p := newPlanner(insertJob, func(_ *outbox.ConsumerSpec, c *outbox.ConsumerConfig) {
		c.Observer = &outbox.ConsumerObserver{
			Begin:   func(context.Context, outbox.Begun) context.Context { panic("secret") },
			Handled: func(context.Context, outbox.Handled) { panic("secret") },
			Failed:  func(context.Context, outbox.HandlingFailed) { panic("secret") },
		}
	})
	p.handle(t, testEnvelope(), outbox.Applied)
	p.db.answer["INSERT job"] = errForeignKey
	if _, err := p.Handle(t.Context(), testEnvelope()); err == nil {
		t.Error("handled")
	}
	if log := p.log.String(); !strings.Contains(log, "an observer panicked") || strings.Contains(log, "secret") {
		t.Errorf("log %q", log)
	}
}

func TestConsumerHealth(t *testing.T) {
	var p planner
	var during outbox.ConsumerHealth
	p = newPlanner(func(context.Context, *outbox.Tx, outbox.Message[map[string]any]) error {
		during = p.Health()
		return nil
	}, nil)
	p.handle(t, testEnvelope(), outbox.Applied)
	if during.Handling != 1 || during.Oldest.IsZero() {
		t.Errorf("while an event is handled: %+v", during)
	}
	if h := p.Health(); h != (outbox.ConsumerHealth{}) {
		t.Errorf("at rest: %+v", h)
	}
	p.db.answer["INSERT dedup"] = errConnection
	_, _ = p.Handle(t.Context(), testEnvelope())
	first := p.Health().UnavailableSince
	_, _ = p.Handle(t.Context(), testEnvelope())
	if h := p.Health(); first.IsZero() || h.UnavailableSince != first || h.Handling != 0 {
		t.Errorf("without a database: %+v, then %+v", first, h)
	}
	p.db.answer["INSERT dedup"] = nil
	p.handle(t, testEnvelope(), outbox.Applied)
	if h := p.Health(); !h.UnavailableSince.IsZero() {
		t.Errorf("with it again: %+v", h)
	}
}
