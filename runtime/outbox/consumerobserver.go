package outbox

import (
	"context"
	"log/slog"
	"time"
)

// ConsumerObserver has functions that a consumer calls as things happen, for metrics and
// traces; nil ones are not called. They are called from several goroutines, and the
// consumer waits for them, in no transaction but for Begin at a redrive: they must be
// quick and must not block. One that panics is logged and goes on being called.
//
// Nothing that they are told holds payload. Event types and ids come from the message: any
// sender may write any text there, so that neither is fit for a metric's attribute as it is.
type ConsumerObserver struct {
	// Begin is called before an event is handled or redriven. The context that it returns
	// is the handler's, and the one that Handled or Failed is called with afterwards; nil
	// stands for the one it was given. It is not called for a message that isn't an event.
	Begin func(ctx context.Context, b Begun) context.Context

	// Handled is called after Handle, Redrive or Park has ended without an error: after the
	// commit, and before the message is acknowledged.
	Handled func(ctx context.Context, h Handled)

	// Failed is called after Handle, Redrive or Park has ended with an error.
	Failed func(ctx context.Context, f HandlingFailed)
}

// Begun tells of an event that is about to be handled.
type Begun struct {
	Consumer  string
	EventType string
	EventID   string
	Trace     Trace       // of the writer, as the headers have it; may be empty
	Repeat    RepeatCause // why it may be a repeat; empty when nothing speaks for it
	Redrive   bool
}

// Handled tells how an event ended.
type Handled struct {
	Consumer  string
	Handling  Handling
	EventType string        // empty of a message that isn't an event
	Created   time.Time     // when it was written, by that database's clock; zero when nobody says
	Took      time.Duration // of the call, its repeats after deadlocks among it
	Cause     RepeatCause   // of a Duplicate, never empty there: see the causes for what is guessed
	Kind      string        // of Parked: attempts, permanent, payload, type, version or message
	Redrive   bool
}

// HandlingFailed tells of an event that was not handled, and comes again.
type HandlingFailed struct {
	Consumer  string
	EventType string
	Kind      FailureKind // as of a HandlingError; FailureUnknown for an error of another type
	Took      time.Duration
	Redrive   bool
}

// consumerObserving calls a [ConsumerObserver]'s functions, those that are set. One that
// panics doesn't harm the consumer.
type consumerObserving struct {
	ConsumerObserver
	surviving
}

// newConsumerObserving takes nil for an observer without functions.
func newConsumerObserving(o *ConsumerObserver, log *slog.Logger) *consumerObserving {
	out := &consumerObserving{surviving: newSurviving(log)}
	if o != nil {
		out.ConsumerObserver = *o
	}
	return out
}

// observed is one call of Handle, Redrive or Park.
type observed struct {
	c       *Consumer
	e       Envelope
	began   time.Time
	repeat  RepeatCause
	redrive bool
}

// observe begins to observe; ctx is of the call, before the event's own trace is in it.
func (c *Consumer) observe(ctx context.Context, e Envelope) *observed {
	o := &observed{c: c, e: e, began: time.Now(), repeat: repeatCause(ctx, e)}
	c.pulse.begin(o)
	return o
}

// begin returns the context for the handler.
func (o *observed) begin(ctx context.Context) context.Context {
	f := o.c.observing.Begin
	if f == nil {
		return ctx
	}
	begun := Begun{
		Consumer: o.c.spec.Name, EventType: o.e.Type, EventID: o.e.ID.String(), Repeat: o.repeat, Redrive: o.redrive,
		Trace: Trace{Parent: o.e.Headers[headerTraceParent], State: o.e.Headers[headerTraceState]},
	}
	out := ctx
	o.c.observing.survive(begun, func() {
		if next := f(ctx, begun); next != nil {
			out = next
		}
	})
	return out
}

// end tells how it ended.
func (o *observed) end(ctx context.Context, end ending, err error) {
	o.c.pulse.end(o, err)
	o.c.stats.count(end.handling, err)
	switch observing := o.c.observing; {
	case err != nil && observing.Failed != nil:
		failed := HandlingFailed{
			Consumer: o.c.spec.Name, EventType: o.e.Type, Kind: handlingKind(err), Took: time.Since(o.began), Redrive: o.redrive,
		}
		observing.survive(failed, func() { observing.Failed(ctx, failed) })
	case err == nil && observing.Handled != nil:
		handled := Handled{
			Consumer: o.c.spec.Name, Handling: end.handling, EventType: o.e.Type, Created: o.e.Time,
			Took: time.Since(o.began), Kind: end.parked, Redrive: o.redrive,
		}
		if end.handling == Duplicate {
			handled.Cause = o.cause()
		}
		observing.survive(handled, func() { observing.Handled(ctx, handled) })
	}
}

func (o *observed) cause() RepeatCause {
	switch {
	case o.redrive:
		return RepeatRedrive
	case o.repeat == "":
		return RepeatUnknown
	default:
		return o.repeat
	}
}
