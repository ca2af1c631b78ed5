package cloudevents

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

const (
	traceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	traceState  = "a=1,b=2"
	dataSchema  = "https://schemas.example.com/orders/order.accepted.v1.schema.json"
	awkwardID   = `Ärger "1" 100% %41`
)

func TestSDKReadsOurs(t *testing.T) {
	for _, c := range carriers {
		for name, id := range map[string]string{"plain id": "42", "awkward id": awkwardID} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				t.Parallel()
				sent := brokersuite.Event(id, 9_007_199_254_740_993)
				if id == "42" {
					sent.DataSchema = dataSchema
				}
				sent.Headers = map[string]string{"traceparent": traceParent, "tracestate": traceState, "tenant": "7"}
				got := sdkEvent(t, c.names, c.send(t, sent))
				want := map[string]any{
					"specversion": "1.0", "id": sent.ID.String(), "source": sent.Source, "type": sent.Type, "subject": id,
					"datacontenttype": "application/json", "time": sent.Time, "data": string(sent.Data),
					"dataschema": sent.DataSchema,
					"extensions": map[string]any{
						"aggregatetype": "order", "aggregateversion": "9007199254740993", "schemaversion": "1",
						"traceparent": traceParent, "tracestate": traceState,
					},
				}
				have := map[string]any{
					"specversion": got.SpecVersion(), "id": got.ID(), "source": got.Source(), "type": got.Type(), "subject": got.Subject(),
					"datacontenttype": got.DataContentType(), "time": got.Time(), "data": string(got.Data()),
					"dataschema": got.DataSchema(),
					"extensions": got.Extensions(),
				}
				if diff := cmp.Diff(want, have); diff != "" {
					t.Errorf("what the SDK reads (-sent +read):\n%s", diff)
				}
			})
		}
	}
}

func TestWeReadTheSDKs(t *testing.T) {
	for _, c := range carriers {
		for mode, structured := range map[string]bool{"binary": false, "structured": true} {
			for kind, version := range map[string]any{"number": 7, "text": "7"} {
				t.Run(c.name+", "+mode+", versions as a "+kind, func(t *testing.T) {
					t.Parallel()
					want := brokersuite.Event(awkwardID, 7)
					want.SchemaVersion, want.DataSchema = 7, dataSchema
					want.Headers = map[string]string{"traceparent": traceParent, "tracestate": traceState}
					e := event.New()
					e.SetID(want.ID.String())
					e.SetSource(want.Source)
					e.SetType(want.Type)
					e.SetDataSchema(want.DataSchema)
					e.SetSubject(want.AggregateID)
					e.SetTime(want.Time)
					e.SetExtension("aggregatetype", want.AggregateType)
					e.SetExtension("aggregateversion", version)
					e.SetExtension("schemaversion", version)
					e.SetExtension("traceparent", traceParent)
					e.SetExtension("tracestate", traceState)
					if err := e.SetData(event.ApplicationJSON, want.Data); err != nil {
						t.Fatal(err)
					}
					if err := e.Validate(); err != nil {
						t.Fatal(err)
					}
					got := c.deliver(t, sdkWrites(t, c.names, e, structured))
					sameJSON := cmp.Comparer(func(a, b json.RawMessage) bool { return bytes.Equal(compact(a), compact(b)) })
					if diff := cmp.Diff(want, got, sameJSON); diff != "" {
						t.Errorf("what we read (-written +read):\n%s", diff)
					}
				})
			}
		}
	}
}

func compact(data json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, data) != nil {
		return data
	}
	return b.Bytes()
}
