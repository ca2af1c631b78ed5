package kafka

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

func header(name, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: name, Value: []byte(value)}
}

func TestBinaryMode(t *testing.T) {
	e := brokersuite.Event("Ärger 1", 7)
	e.Headers = map[string]string{
		"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tenant": "t1",
	}
	r, err := encode(e)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, h := range r.Headers {
		got[h.Key] = string(h.Value)
	}
	want := map[string]string{
		"ce_specversion": "1.0", "ce_id": e.ID.String(), "ce_source": "orders", "ce_type": "order.accepted",
		"ce_subject": "Ärger 1", "ce_time": "2026-02-03T04:05:06.789012Z", "content-type": "application/json",
		"ce_aggregatetype": "order", "ce_aggregateversion": "7", "ce_schemaversion": "1",
		"ce_traceparent": e.Headers["traceparent"], "traceparent": e.Headers["traceparent"], "tenant": "t1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if string(r.Key) != "Ärger 1" || string(r.Value) != string(e.Data) {
		t.Errorf("key %q, value %q", r.Key, r.Value)
	}
	e.AggregateID = ""
	if r, err = encode(e); err != nil || r.Key == nil {
		t.Errorf("without an aggregate: key %v, %v; want an empty key", r.Key, err)
	}
}

func TestStructuredMode(t *testing.T) {
	e := brokersuite.Event("order-1", 7)
	r := &kgo.Record{
		Headers: []kgo.RecordHeader{header("Content-Type", "application/cloudevents+json; charset=utf-8"), header("tenant", "t1")},
		Value: []byte(`{"specversion": "1.0", "id": "` + e.ID.String() + `", "source": "orders", "type": "order.accepted",
			"subject": "order-1", "time": "2026-02-03T04:05:06.789012Z", "datacontenttype": "application/json",
			"aggregatetype": "order", "aggregateversion": 7, "schemaversion": 1, "data": {"version": 7}}`),
	}
	got, err := read(r).envelope(r.Value)
	if err != nil {
		t.Fatal(err)
	}
	e.Headers = map[string]string{"tenant": "t1"}
	if diff := cmp.Diff(e, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnreadable(t *testing.T) {
	good := func() *kgo.Record {
		r, err := encode(brokersuite.Event("order-1", 1))
		if err != nil {
			t.Fatal(err)
		}
		r.Topic, r.Partition, r.Offset = topic, 2, 17
		return r
	}
	for name, spoil := range map[string]func(*kgo.Record){
		"no headers":      func(r *kgo.Record) { r.Headers = nil },
		"attribute twice": func(r *kgo.Record) { r.Headers = append(r.Headers, header("CE_ID", "secret")) },
		"not UTF-8":       func(r *kgo.Record) { r.Headers = append(r.Headers, header("ce_extra", "secret\xff")) },
		"batch mode": func(r *kgo.Record) {
			r.Headers = []kgo.RecordHeader{header(contentType, "application/cloudevents-batch+json")}
		},
		"bad structured": func(r *kgo.Record) {
			r.Headers = []kgo.RecordHeader{header(contentType, "application/cloudevents+json")}
			r.Value = []byte("secret{")
		},
		"another content": func(r *kgo.Record) {
			i := slices.IndexFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == contentType })
			r.Headers[i].Value = []byte("text/secret")
		},
		"null value and headers": func(r *kgo.Record) { r.Headers = []kgo.RecordHeader{{Key: "", Value: nil}}; r.Value = nil },
	} {
		r := good()
		spoil(r)
		_, err := read(r).envelope(r.Value)
		if !errors.Is(err, outbox.ErrNotAnEvent) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows a value: %v", name, err)
		}
		m := unreadable(r, err)
		if m.Reference != "orders/2/17" || string(m.Body) != string(r.Value) || m.Reason == nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("ce_id", []byte("x"), "content-type", []byte("application/cloudevents+json"), []byte("{}"))
	f.Add("", []byte(nil), "CE_", []byte("\xff"), []byte(nil))
	f.Fuzz(func(t *testing.T, name string, value []byte, name2 string, value2, body []byte) {
		r, err := encode(brokersuite.Event("order-1", 1))
		if err != nil {
			t.Fatal(err)
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: value}, kgo.RecordHeader{Key: name2, Value: value2})
		r.Value = body
		if _, err := read(r).envelope(body); err != nil && !errors.Is(err, outbox.ErrNotAnEvent) {
			t.Errorf("%v isn't ErrNotAnEvent", err)
		}
		unreadable(r, err)
	})
}
