package outboxotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Relay returns the observer for a [outbox.RelayConfig]. It may be given to several relays
// of one process, whose figures are added up.
func (t *Telemetry) Relay() *outbox.Observer {
	i, ctx := t.relay, context.Background()
	t.backlog.pause(false) // known from now on
	t.zeroRelay(ctx)
	return &outbox.Observer{
		Claimed: func(c outbox.Claimed) {
			i.batch.Record(ctx, float64(len(c.Events)))
			i.claim.Record(ctx, c.Took.Seconds())
		},
		Answered: t.answered,
		Settled:  t.settled,
		Abandoned: func(events int) {
			i.abandoned.Add(ctx, int64(events))
		},
		Paused: func(outbox.Paused) {
			i.pauses.Add(ctx, 1)
			t.backlog.pause(true)
		},
		Resumed: func() { t.backlog.pause(false) },
		// Who paused them, and why, is for people and not for attributes.
		OnHold: func(h *outbox.Hold) { t.backlog.hold(h != nil) },
		StoreFailed: func(f outbox.StoreFailed) {
			call := oneOf(f.Call, calls()...)
			i.storeFailures.Add(ctx, 1, with(attribute.String(attrCall, call)))
		},
		Backlog: func(b outbox.Backlog) { t.backlog.set(b, time.Now()) },
	}
}

// answer is what the answers of a batch are counted by.
type answer struct{ eventType, result string }

func (t *Telemetry) answered(a outbox.Answered) {
	ctx, now := context.Background(), time.Now()
	t.relay.publish.Record(ctx, a.Took.Seconds())
	counts := make(map[answer]int64)
	for n := range a.Events {
		e := &a.Events[n].Envelope
		by := answer{eventType: t.types.known(e.Type), result: "confirmed"}
		if err := a.Errors[n]; err != nil {
			by.result = failure(outbox.FailureKindOf(err)).Value.AsString()
		} else if !e.Time.IsZero() {
			t.relay.confirm.Record(ctx, latency(e.Time, now), with(attribute.String(attrEventType, by.eventType)))
		}
		counts[by]++
	}
	for by, n := range counts {
		t.relay.answers.Add(ctx, n, with(attribute.String(attrEventType, by.eventType), attribute.String(attrResult, by.result)))
	}
	t.publishSpans(a, now)
}

// latency is not below zero, whatever the two clocks say.
func latency(from, to time.Time) float64 { return max(0, to.Sub(from).Seconds()) }

// ended is what the outcomes of a batch are counted by.
type ended struct {
	kind    outbox.OutcomeKind
	failure outbox.FailureKind
}

func (t *Telemetry) settled(s outbox.Settled) {
	ctx := context.Background()
	t.relay.settle.Record(ctx, s.Took.Seconds())
	if len(s.Lost) > 0 {
		t.relay.stale.Add(ctx, int64(len(s.Lost)))
	}
	lost := make(map[string]struct{}, len(s.Lost))
	for _, key := range s.Lost {
		lost[key] = struct{}{}
	}
	counts := make(map[ended]int64)
	for n := range s.Outcomes {
		o := &s.Outcomes[n]
		if _, isLost := lost[o.Key]; !isLost {
			counts[ended{o.Kind, o.Failure}]++
		}
	}
	for by, n := range counts {
		attrs := []attribute.KeyValue{attribute.String(attrOutcome, outcome(by.kind))}
		if by.kind == outbox.OutcomeRetry || by.kind == outbox.OutcomeDead {
			attrs = append(attrs, failure(by.failure))
		}
		t.relay.settled.Add(ctx, n, with(attrs...))
	}
}

func outcome(k outbox.OutcomeKind) string {
	switch k {
	case outbox.OutcomePublished:
		return "published"
	case outbox.OutcomeReleased:
		return "released"
	case outbox.OutcomeRetry:
		return "retry"
	case outbox.OutcomeDead:
		return "dead"
	default:
		return "unknown"
	}
}
