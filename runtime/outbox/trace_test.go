package outbox_test

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const (
	parent  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	parent2 = "00-11111111111111111111111111111111-2222222222222222-00"
)

func TestTraceOfAHandler(t *testing.T) {
	var got outbox.Trace
	var has bool
	p := newPlanner(func(ctx context.Context, _ *outbox.Tx, _ outbox.Message[map[string]any]) error {
		got, has = outbox.TraceOf(ctx)
		return nil
	}, nil)
	e := testEnvelope()
	e.Headers = map[string]string{"traceparent": parent, "tracestate": "a=1"}
	p.handle(t, e, outbox.Applied)
	if want := (outbox.Trace{Parent: parent, State: "a=1"}); !has || got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	e.ID, e.Headers = outbox.NewEventID(), nil
	p.handle(t, e, outbox.Applied)
	if has {
		t.Errorf("a trace without one: %v", got)
	}
}

func TestTraceParentsOfOtherForms(t *testing.T) {
	for _, s := range []string{
		"", "x", strings.ToUpper(parent), parent + "-x", strings.Replace(parent, "00-", "ff-", 1), strings.Replace(parent, "-01", "-1", 1),
		strings.Replace(parent, "0af7651916cd43dd8448eb211c80319c", strings.Repeat("0", 32), 1),
		strings.Replace(parent, "b7ad6b7169203331", strings.Repeat("0", 16), 1), strings.Replace(parent, "0a", "g0", 1), parent[:54],
	} {
		if got, ok := outbox.TraceOf(outbox.WithTrace(t.Context(), outbox.Trace{Parent: s})); ok {
			t.Errorf("%q is taken: %v", s, got)
		}
	}
	later := strings.Replace(parent, "00-", "01-", 1) + "-more" // a later version may be longer
	if got, ok := outbox.TraceOf(outbox.WithTrace(t.Context(), outbox.Trace{Parent: later})); !ok || got.Parent != later {
		t.Errorf("%v, %v", got, ok)
	}
}

func TestTraceOfAWriter(t *testing.T) {
	large := map[string]string{"large": strings.Repeat("x", 8<<10-len("large")-len("traceparent"+parent)-5)}
	for _, c := range []struct {
		name          string
		trace         outbox.Trace
		headers, want map[string]string
	}{
		{"none", outbox.Trace{}, nil, map[string]string{}},
		{"parent", outbox.Trace{Parent: parent}, nil, map[string]string{"traceparent": parent}},
		{
			"both, beside others",
			outbox.Trace{Parent: parent, State: "a=1"},
			map[string]string{"tenant": "7"},
			map[string]string{"traceparent": parent, "tracestate": "a=1", "tenant": "7"},
		},
		{
			"the writer's own, of another trace",
			outbox.Trace{Parent: parent, State: "a=1"},
			map[string]string{"traceparent": parent2},
			map[string]string{"traceparent": parent2},
		},
		{"a state that is no header", outbox.Trace{Parent: parent, State: "a\n1"}, nil, map[string]string{"traceparent": parent}},
		{"a state that is too much", outbox.Trace{Parent: parent, State: "a=1"}, large, with(large, "traceparent", parent)},
	} {
		before := maps.Clone(c.headers)
		got := writtenHeaders(outbox.WithTrace(t.Context(), c.trace), t, c.headers)
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: wrote %v, want %v", c.name, got, c.want)
		}
		if !maps.Equal(c.headers, before) {
			t.Errorf("%s: the caller's map was changed", c.name)
		}
	}
}

func with(m map[string]string, name, value string) map[string]string {
	m = maps.Clone(m)
	m[name] = value
	return m
}

// writtenHeaders are those of an event written in ctx.
func writtenHeaders(ctx context.Context, t *testing.T, headers map[string]string) map[string]string {
	t.Helper()
	_, db := newFakeDB()
	got := map[string]string{}
	_, err := outbox.InTx(ctx, db, func(tx *outbox.Tx) error {
		insert := func(_ context.Context, _ outbox.Transaction, r outbox.Row) error {
			return json.Unmarshal(r.Headers, &got)
		}
		return outbox.Write(ctx, tx, record(goodPayload{}), insert, outbox.WriteOptions{Headers: headers})
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// plainTrace is a propagator of one header.
type plainTrace struct{}

type plainKey struct{}

func (plainTrace) Inject(ctx context.Context, set func(name, value string)) {
	if v, ok := ctx.Value(plainKey{}).(string); ok {
		set("b3", v)
		set("X-Upper", v)     // left out: no name for a header
		set("nats-rollup", v) // left out: a broker's command
	}
}

func (plainTrace) Extract(ctx context.Context, get func(name string) string) context.Context {
	return context.WithValue(ctx, plainKey{}, get("b3"))
}

func TestPropagator(t *testing.T) {
	outbox.SetPropagator(plainTrace{})
	defer outbox.SetPropagator(nil)
	ctx := outbox.ContextWithTrace(t.Context(), map[string]string{"b3": "1-2-3"})
	if got := writtenHeaders(ctx, t, nil); !maps.Equal(got, map[string]string{"b3": "1-2-3"}) {
		t.Errorf("wrote %v", got)
	}
	outbox.SetPropagator(nil)
	if got := writtenHeaders(outbox.WithTrace(ctx, outbox.Trace{Parent: parent}), t, nil); !maps.Equal(got, map[string]string{"traceparent": parent}) {
		t.Errorf("after its end wrote %v", got)
	}
}
