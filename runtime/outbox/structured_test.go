package outbox_test

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const structured = `{
  "specversion": "1.0", "id": "018f1f2e-0000-7000-8000-000000000001", "source": "orders", "type": "order.accepted",
  "subject": "7", "time": "2026-11-30T01:02:03Z", "datacontenttype": "application/json",
  "aggregatetype": "order", "aggregateversion": 4, "schemaversion": "1", "traceparent": "` + parent + `",
  "data": {"a": 1.50, "b": "é"}
}`

func TestStructuredMode(t *testing.T) {
	headers := map[string]string{"tenant": "7"}
	for _, contentType := range []string{
		outbox.StructuredType, "Application/CloudEvents+JSON", " application/cloudevents+json ; charset=utf-8",
	} {
		e, err := outbox.EnvelopeFromStructured(contentType, headers, []byte(structured))
		if err != nil {
			t.Fatal(contentType, err)
		}
		want := outbox.Envelope{
			ID: uuid.MustParse("018f1f2e-0000-7000-8000-000000000001"), Source: "orders", Type: "order.accepted",
			AggregateType: "order", AggregateID: "7", AggregateVersion: 4, SchemaVersion: 1,
			Time:    time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC),
			Headers: map[string]string{"tenant": "7", "traceparent": parent},
			Data:    json.RawMessage(`{"a": 1.50, "b": "é"}`),
		}
		if !reflect.DeepEqual(e, want) {
			t.Errorf("%s: got\n%#v, want\n%#v", contentType, e, want)
		}
	}
	if !maps.Equal(headers, map[string]string{"tenant": "7"}) {
		t.Errorf("the message's headers were changed: %v", headers)
	}
}

func TestStructuredData(t *testing.T) {
	for data, want := range map[string]string{
		`"data_base64": "eyJhIjogMX0="`: `{"a": 1}`,
		`"data": "text"`:                `"text"`,
		`"data": null`:                  `null`,
		`"data": [1, 2]`:                `[1, 2]`,
		`"note": 1`:                     ``,
	} {
		body := strings.Replace(structured, `"data": {"a": 1.50, "b": "é"}`, data, 1)
		if e, err := outbox.EnvelopeFromStructured(outbox.StructuredType, nil, []byte(body)); err != nil || string(e.Data) != want {
			t.Errorf("%s: %q, %v", data, e.Data, err)
		}
	}
}

func TestNotStructured(t *testing.T) {
	change := func(from, to string) string {
		if !strings.Contains(structured, from) {
			t.Fatal("no", from)
		}
		return strings.Replace(structured, from, to, 1)
	}
	for name, c := range map[string]struct{ contentType, body string }{
		"a batch":           {"application/cloudevents-batch+json", "[" + structured + "]"},
		"another format":    {"application/cloudevents+avro", structured},
		"no type":           {"", structured},
		"no JSON":           {outbox.StructuredType, "secret"},
		"an array":          {outbox.StructuredType, "[]"},
		"nothing":           {outbox.StructuredType, ""},
		"null":              {outbox.StructuredType, "null"},
		"two objects":       {outbox.StructuredType, structured + structured},
		"not UTF-8":         {outbox.StructuredType, change("é", "\xff")},
		"two ids":           {outbox.StructuredType, change(`"subject"`, `"id": "018f1f2e-0000-7000-8000-000000000002", "subject"`)},
		"an id in escapes":  {outbox.StructuredType, change(`"subject"`, `"\u0069d": "018f1f2e-0000-7000-8000-000000000001", "subject"`)},
		"data twice":        {outbox.StructuredType, change(`"subject"`, `"data": {}, "subject"`)},
		"a member cut off":  {outbox.StructuredType, `{"id": `},
		"two data":          {outbox.StructuredType, change(`"subject"`, `"data_base64": "", "subject"`)},
		"no base64":         {outbox.StructuredType, change(`"data":`, `"data_base64": "secret!", "x":`)},
		"base64 of objects": {outbox.StructuredType, change(`"data":`, `"data_base64":`)},
		"no specversion":    {outbox.StructuredType, change(`"specversion": "1.0",`, ``)},
		"specversion 2":     {outbox.StructuredType, change(`"1.0"`, `"2.0"`)},
		"no id":             {outbox.StructuredType, change(`"id"`, `"ID"`)},
		"an id of null":     {outbox.StructuredType, change(`"018f1f2e-0000-7000-8000-000000000001"`, `null`)},
		"a type of objects": {outbox.StructuredType, change(`"order.accepted"`, `{"secret": 1}`)},
		"a list as version": {outbox.StructuredType, change(`4,`, `[4],`)},
		"half a version":    {outbox.StructuredType, change(`4,`, `4.5,`)},
		"an exponent":       {outbox.StructuredType, change(`4,`, `4e0,`)},
		"true as version":   {outbox.StructuredType, change(`"schemaversion": "1"`, `"schemaversion": true`)},
		"a time of words":   {outbox.StructuredType, change(`2026-11-30T01:02:03Z`, `secret`)},
		"a time of later":   {outbox.StructuredType, change(`2026-11-30T01:02:03Z`, `9999-12-31T23:59:59-14:00`)},
		"a time of before":  {outbox.StructuredType, change(`2026-11-30T01:02:03Z`, `0000-01-01T00:00:00+14:00`)},
		"a type not UTF-8":  {outbox.StructuredType, change(`"order",`, "\"\xff\",")},
		"data of XML":       {outbox.StructuredType, change(`"application/json"`, `"application/xml"`)},
	} {
		_, err := outbox.EnvelopeFromStructured(c.contentType, nil, []byte(c.body))
		if !errors.Is(err, outbox.ErrNotAnEvent) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIsStructured(t *testing.T) {
	for contentType, want := range map[string]bool{
		"application/cloudevents+json": true, "APPLICATION/CloudEvents+json; charset=utf-8": true,
		" application/cloudevents-batch+json": true, "application/json": false, "": false, "text/plain; application/cloudevents": false,
	} {
		if got := outbox.IsStructured(contentType); got != want {
			t.Errorf("%q: %v", contentType, got)
		}
	}
}

// Whatever comes, an envelope is one that binary mode would read back, or the
// message isn't an event.
func FuzzStructured(f *testing.F) {
	for _, body := range []string{
		structured, "", "{}", "null", "[]", `{"specversion":"1.0"}`, strings.Repeat("[", 20_000),
		strings.Replace(structured, "orders", `\u0000\ud800`, 1), strings.Replace(structured, `"data"`, `"data_base64"`, 1),
		strings.Replace(structured, `"time": "2026-11-30T01:02:03Z"`, `"time": "9999-12-31T23:59:59.999999999-14:00"`, 1),
		strings.Replace(structured, `"time": "2026-11-30T01:02:03Z"`, `"time": "0000-01-01T00:00:00+14:00"`, 1),
		strings.Replace(structured, `"aggregateversion": 4`, `"aggregateversion": -9223372036854775808`, 1),
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := outbox.EnvelopeFromStructured(outbox.StructuredType, nil, body)
		if err != nil {
			if !errors.Is(err, outbox.ErrNotAnEvent) {
				t.Error(err)
			}
			return
		}
		attributes := maps.Collect(e.Attributes())
		again, err := outbox.EnvelopeFromAttributes(func(name string) string { return attributes[name] }, nil, e.Data)
		if err != nil || again.ID != e.ID || again.Type != e.Type || again.AggregateVersion != e.AggregateVersion || again.AggregateID != e.AggregateID {
			t.Errorf("%v: %#v and %#v", err, e, again)
		}
	})
}
