package observability

import (
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/outboxgen/outboxgen/internal/dbtest"
)

// One trace from the HTTP request through the row and the broker to the effect.
func TestOneTraceFromTheRequestToTheEffect(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		x := newExample(t, server)
		const caller, traceID = "b7ad6b7169203331", "0af7651916cd43dd8448eb211c80319c"
		x.order(t, 1, "leave it at the door", "00-"+traceID+"-"+caller+"-01")
		spans := map[string]tracetest.SpanStub{}
		await(t, "the spans of request, publish and process", func() bool {
			for _, s := range x.spans.GetSpans() {
				spans[s.Name] = s
			}
			return len(spans) == 3
		})
		request, publish, process := spans["POST"], spans["publish order.accepted"], spans["process order.accepted"]
		for _, s := range spans {
			if s.SpanContext.TraceID().String() != traceID {
				t.Errorf("%s has a trace of its own, %s", s.Name, s.SpanContext.TraceID())
			}
		}
		if request.Parent.SpanID().String() != caller {
			t.Errorf("the request isn't its caller's child: %+v", request.Parent)
		}
		for _, s := range []tracetest.SpanStub{publish, process} {
			if s.Parent.SpanID() != request.SpanContext.SpanID() || !s.Parent.IsRemote() {
				t.Errorf("%s isn't the request's child: %+v", s.Name, s.Parent)
			}
		}
		if len(process.Links) != 1 || process.Links[0].SpanContext.SpanID() != request.SpanContext.SpanID() {
			t.Errorf("process links %+v", process.Links)
		}
		checkAttributes(t, x.spans.GetSpans())
	})
}

// checkAttributes allows the names that are known to be no payload.
func checkAttributes(t *testing.T, spans tracetest.SpanStubs) {
	t.Helper()
	for _, s := range spans {
		for _, kv := range s.Attributes {
			name := string(kv.Key)
			if !strings.HasPrefix(name, "messaging.") && !strings.HasPrefix(name, "outbox.") &&
				name != "error.type" && name != "http.request.method" {
				t.Errorf("%s has the attribute %s", s.Name, name)
			}
		}
		if len(s.Events) > 0 {
			t.Errorf("%s has events, which may hold an error's text: %+v", s.Name, s.Events)
		}
	}
}
