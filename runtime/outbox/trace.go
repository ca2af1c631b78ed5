package outbox

import (
	"context"
	"maps"
	"strings"
	"sync/atomic"
)

// The headers of a W3C trace context (https://www.w3.org/TR/trace-context/).
const (
	headerTraceParent = "traceparent"
	headerTraceState  = "tracestate"
)

// Propagator carries a trace from a writer's context to the event's headers, and
// from there to the handler's context. OpenTelemetry's TextMapPropagator has these
// two methods but for its carrier.
type Propagator interface {
	// Inject calls set for each header that carries ctx's trace. Names are lower case.
	Inject(ctx context.Context, set func(name, value string))

	// Extract returns ctx with the trace that the headers carry.
	Extract(ctx context.Context, get func(name string) string) context.Context
}

var propagator atomic.Pointer[Propagator]

// SetPropagator makes p carry the traces of this process. Call it once, before
// anything is written or handled. Without it a trace is what [WithTrace] put into
// the context, so that an event that a handler writes carries on the trace of the one
// that it handles. nil restores that.
func SetPropagator(p Propagator) {
	if p == nil {
		propagator.Store(nil)
		return
	}
	propagator.Store(&p)
}

func currentPropagator() Propagator {
	if p := propagator.Load(); p != nil {
		return *p
	}
	return plainPropagator{}
}

// Trace is a W3C trace context.
type Trace struct {
	Parent string // traceparent
	State  string // tracestate; may be empty
}

type traceKey struct{}

// WithTrace returns a context in which events are written with this trace context. A
// parent that isn't one by the W3C's rules is left out.
func WithTrace(ctx context.Context, t Trace) context.Context {
	if !validTraceParent(t.Parent) {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf returns the trace context of [WithTrace], or of the event that a handler's context
// belongs to.
func TraceOf(ctx context.Context) (t Trace, ok bool) {
	t, ok = ctx.Value(traceKey{}).(Trace)
	return t, ok
}

// ContextWithTrace returns ctx with the trace that an event's headers carry.
// Consumers call it.
func ContextWithTrace(ctx context.Context, headers map[string]string) context.Context {
	if len(headers) == 0 {
		return ctx
	}
	return currentPropagator().Extract(ctx, func(name string) string { return headers[name] })
}

// withTrace adds ctx's trace to a writer's headers. What the writer has set itself
// stays, and what the propagator sets against the rules for headers, the most bytes
// among them, is left out:
// a trace is no reason to fail a business change. With a traceparent of the writer's
// nothing is added: what would be belongs to another trace.
func withTrace(ctx context.Context, headers map[string]string) map[string]string {
	if _, has := headers[headerTraceParent]; has {
		return headers
	}
	merged, size := headers, headerBytes(headers)
	currentPropagator().Inject(ctx, func(name, value string) {
		size += len(name) + len(value)
		if _, has := headers[name]; has || size > maxHeaderBytes || CheckHeader(name, value) != nil {
			return
		}
		if len(merged) == len(headers) {
			merged = maps.Clone(headers)
			if merged == nil {
				merged = make(map[string]string, 2)
			}
		}
		merged[name] = value
	})
	return merged
}

// plainPropagator carries what WithTrace put into the context.
type plainPropagator struct{}

func (plainPropagator) Inject(ctx context.Context, set func(name, value string)) {
	t, ok := TraceOf(ctx)
	if !ok {
		return
	}
	set(headerTraceParent, t.Parent)
	if t.State != "" {
		set(headerTraceState, t.State)
	}
}

func (plainPropagator) Extract(ctx context.Context, get func(name string) string) context.Context {
	return WithTrace(ctx, Trace{Parent: get(headerTraceParent), State: get(headerTraceState)})
}

// validTraceParent checks the form of a traceparent: version, trace id, parent id and
// flags in lower-case hexadecimal, no id all zero, no version ff.
func validTraceParent(s string) bool {
	parts := strings.Split(s, "-")
	if len(parts) < 4 || len(parts[0]) != 2 || len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 {
		return false
	}
	if parts[0] == "00" && len(parts) != 4 || parts[0] == "ff" {
		return false
	}
	for _, part := range parts[:4] {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return false
		}
	}
	return strings.Trim(parts[1], "0") != "" && strings.Trim(parts[2], "0") != ""
}
