package rabbitmq

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

const traceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// asDelivered is what a consumer gets of a message.
func asDelivered(m amqp.Publishing) amqp.Delivery {
	return amqp.Delivery{Headers: m.Headers, ContentType: m.ContentType, MessageId: m.MessageId, Body: m.Body}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	e := brokersuite.Event("order-1", 7)
	e.Headers = map[string]string{"traceparent": traceParent, "tenant": "t1"}
	m, err := encode(e)
	if err != nil {
		t.Fatal(err)
	}
	want := amqp.Publishing{
		ContentType: "application/json", DeliveryMode: amqp.Persistent, MessageId: e.ID.String(), Body: e.Data,
		Headers: amqp.Table{
			"cloudEvents:specversion": "1.0", "cloudEvents:id": e.ID.String(), "cloudEvents:source": "orders",
			"cloudEvents:type": "order.accepted", "cloudEvents:subject": "order-1", "cloudEvents:time": "2026-02-03T04:05:06.789012Z",
			"cloudEvents:aggregatetype": "order", "cloudEvents:aggregateversion": "7", "cloudEvents:schemaversion": "1",
			"cloudEvents:traceparent": traceParent, "traceparent": traceParent, "tenant": "t1",
		},
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	got, err := decode(asDelivered(m))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, got); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"CC", "cc", "bcc", "x-delay", "x-death", "x-outboxgen-deliveries", "cloudEvents:id", "cloudevents_id", "amq.x", "content-type", strings.Repeat("n", 256)} {
		e := brokersuite.Event("a", 1)
		e.Headers = map[string]string{name: "secret"}
		if _, err := encode(e); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("header %s: %v", name, err)
		}
	}
}

// Other producers name and type attributes in the other ways that the binding allows.
func TestDecodeForeign(t *testing.T) {
	t.Parallel()
	e := brokersuite.Event("order-1", 7)
	for name, d := range map[string]amqp.Delivery{
		"underscore, typed": {ContentType: "application/json; charset=utf-8", Headers: amqp.Table{
			"cloudEvents_specversion": "1.0", "cloudEvents_id": []byte(e.ID.String()), "cloudEvents_source": e.Source, "cloudEvents_type": e.Type,
			"cloudEvents_subject": e.AggregateID, "cloudEvents_time": e.Time, "cloudEvents_aggregatetype": e.AggregateType,
			"cloudEvents_aggregateversion": int64(7), "cloudEvents_schemaversion": uint16(1),
			"x-death": []any{amqp.Table{"count": int64(1)}}, "CC": []any{"q"}, "list": []any{1},
		}},
		"structured": {ContentType: "application/cloudevents+json; charset=utf-8"},
	} {
		d.Body = e.Data
		if d.Headers == nil {
			d.Body = []byte(`{"specversion":"1.0","id":"` + e.ID.String() + `","source":"orders","type":"order.accepted","subject":"order-1",
				"time":"2026-02-03T04:05:06.789012Z","aggregatetype":"order","aggregateversion":7,"schemaversion":1,"data":` + string(e.Data) + `}`)
		}
		got, err := decode(d)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := e
		want.Time, got.Time = want.Time.Truncate(time.Second), got.Time.Truncate(time.Second) // AMQP's have no fraction
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*amqp.Delivery){
		"no attributes":   func(d *amqp.Delivery) { d.Headers = nil },
		"attribute twice": func(d *amqp.Delivery) { d.Headers["cloudEvents_id"] = d.Headers["cloudEvents:id"] },
		"no scalar":       func(d *amqp.Delivery) { d.Headers["cloudEvents:subject"] = amqp.Table{} },
		"not JSON":        func(d *amqp.Delivery) { d.ContentType = "text/plain" },
		"batch":           func(d *amqp.Delivery) { d.ContentType = "application/cloudevents-batch+json" },
	} {
		m, err := encode(brokersuite.Event("a", 1))
		if err != nil {
			t.Fatal(err)
		}
		d := asDelivered(m)
		spoil(&d)
		_, err = decode(d)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		wantIs(t, err, outbox.ErrNotAnEvent)
	}
}

// What waits is the message as it was, less what is a command to the broker.
func TestToWait(t *testing.T) {
	t.Parallel()
	d := amqp.Delivery{
		Redelivered: true, ContentType: "c", ContentEncoding: "e", MessageId: "m", CorrelationId: "r", Type: "t", AppId: "a", Priority: 3, Body: []byte("b"),
		UserId: "somebody", Expiration: "1", ReplyTo: "amq.rabbitmq.reply-to", DeliveryMode: amqp.Transient,
		Headers: amqp.Table{
			"cloudEvents:id": "1", "n": int32(1), "CC": []any{"q"}, "BCC": []any{"q"}, "x-death": []any{}, "X-Delay": 1,
			headerDeliveryCount: int64(2), headerDeliveries: int64(4),
		},
	}
	want := amqp.Publishing{
		ContentType: "c", ContentEncoding: "e", MessageId: "m", CorrelationId: "r", Type: "t", AppId: "a", Priority: 3, Body: []byte("b"),
		DeliveryMode: amqp.Persistent, Headers: amqp.Table{"cloudEvents:id": "1", "n": int32(1), headerDeliveries: int64(7)},
	}
	if diff := cmp.Diff(want, toWait(d)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDeliveries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		d    amqp.Delivery
		want int
	}{
		{amqp.Delivery{}, 1},
		{amqp.Delivery{Redelivered: true}, 2}, // a classic queue
		{amqp.Delivery{Redelivered: true, Headers: amqp.Table{headerDeliveryCount: int64(3)}}, 4},
		{amqp.Delivery{Headers: amqp.Table{headerDeliveries: int64(3)}}, 4},
		{amqp.Delivery{Headers: amqp.Table{headerDeliveries: "many"}}, 1},
		{amqp.Delivery{Headers: amqp.Table{headerDeliveries: int64(-9)}}, 1},
	} {
		if got := deliveries(c.d); got != c.want {
			t.Errorf("%v: %d, want %d", c.d.Headers, got, c.want)
		}
	}
}

// Names that differ in their letters only: what is read is the same each time.
func TestHeadersInOtherLetters(t *testing.T) {
	t.Parallel()
	for range 100 {
		m, err := encode(brokersuite.Event("a", 1))
		if err != nil {
			t.Fatal(err)
		}
		d := asDelivered(m)
		d.Headers["tenant"], d.Headers["Tenant"], d.Headers["TENANT"] = "c", "b", int32(1)
		e, err := decode(d)
		if err != nil || e.Headers["tenant"] != "1,b,c" {
			t.Fatalf("read %q, %v, want 1,b,c", e.Headers["tenant"], err)
		}
		d.Headers["CLOUDEVENTS:ID"] = d.Headers["cloudEvents:id"]
		_, err = decode(d)
		wantIs(t, err, outbox.ErrNotAnEvent)
	}
}
