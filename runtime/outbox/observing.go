package outbox

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// observing calls an [Observer]'s functions, those that are set. One that panics
// doesn't harm the relay.
type observing struct {
	Observer
	surviving
}

// newObserving takes nil for an observer without functions.
func newObserving(o *Observer, log *slog.Logger) *observing {
	out := &observing{surviving: newSurviving(log)}
	if o != nil {
		out.Observer = *o
	}
	return out
}

func (o *observing) wantsBacklog() bool { return o.Observer.Backlog != nil }

func (o *observing) claimed(events []Event, took time.Duration) {
	tell(o, o.Claimed, Claimed{Events: events, Took: took})
}

func (o *observing) answered(events []Event, errs []error, took time.Duration) {
	tell(o, o.Answered, Answered{Events: events, Errors: errs, Took: took})
}

func (o *observing) settled(s Settlement, outcomes []EventOutcome, took time.Duration) {
	tell(o, o.Settled, Settled{Settlement: s, Outcomes: outcomes, Took: took})
}

func (o *observing) abandoned(events int) { tell(o, o.Abandoned, events) }

func (o *observing) paused(pause time.Duration, err error) {
	tell(o, o.Paused, Paused{For: pause, Error: err})
}

func (o *observing) resumed() {
	if o.Resumed != nil {
		tell(o, func(struct{}) { o.Resumed() }, struct{}{})
	}
}

func (o *observing) onHold(h *Hold) { tell(o, o.OnHold, h) }

func (o *observing) storeFailed(call string, err error) {
	tell(o, o.StoreFailed, StoreFailed{Call: call, Error: err})
}

func (o *observing) backlog(b Backlog) { tell(o, o.Backlog, b) }

// tell calls f, if there is one, and survives its panic.
func tell[T any](o *observing, f func(T), what T) {
	if f != nil {
		o.survive(what, func() { f(what) })
	}
}

// surviving calls functions of observers.
type surviving struct{ panicked trouble }

func newSurviving(log *slog.Logger) surviving {
	return surviving{panicked: trouble{log: log, level: slog.LevelError, message: "an observer panicked"}}
}

// survive calls a function that is told what, and survives its panic.
func (s *surviving) survive(what any, call func()) {
	defer func() {
		if value := recover(); value != nil { // it may hold payload, its type and the stack don't
			s.panicked.note(1, "told", fmt.Sprintf("%T", what), "type", fmt.Sprintf("%T", value),
				"stack", string(debug.Stack()))
		}
	}()
	call()
}
