package watermill

import (
	"errors"
	"maps"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

func TestMetadata(t *testing.T) {
	e := brokersuite.Event("42", 7)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	e.Headers = map[string]string{"tenant": "7", "traceparent": parent}
	m, err := encode(e)
	if err != nil {
		t.Fatal(err)
	}
	want := message.Metadata{
		"ce_specversion": "1.0", "ce_id": e.ID.String(), "ce_source": "orders", "ce_type": "order.accepted",
		"ce_subject": "42", "ce_time": "2026-02-03T04:05:06.789012Z", "content-type": "application/json",
		"ce_aggregatetype": "order", "ce_aggregateversion": "7", "ce_schemaversion": "1",
		"ce_traceparent": parent, "traceparent": parent, "tenant": "7",
	}
	if !maps.Equal(m.Metadata, want) {
		t.Errorf("metadata is %v, want %v", m.Metadata, want)
	}
	if m.UUID != e.ID.String() {
		t.Errorf("the UUID is %s, want the event's id", m.UUID)
	}
}

// What a Pub/Sub or another writer makes of the names.
func TestReadMetadata(t *testing.T) {
	e := brokersuite.Event("42", 7)
	m, err := encode(e)
	if err != nil {
		t.Fatal(err)
	}
	rename := func(from, to string) {
		m.Metadata[to] = m.Metadata[from]
		delete(m.Metadata, from)
	}
	rename("ce_id", "Ce-Id")
	rename("ce_type", "CE_TYPE")
	rename("content-type", "Content-Type")
	m.Metadata["_watermill_delayed_for"] = "1s"
	m.Metadata["Tenant"] = "7"
	d := read(m)
	got, err := d.envelope(m.Payload)
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != e.ID || d.eventType() != e.Type || got.AggregateID != "42" {
		t.Errorf("read %s of aggregate %q and type %s", got.ID, got.AggregateID, d.eventType())
	}
	if want := map[string]string{"tenant": "7"}; !maps.Equal(got.Headers, want) {
		t.Errorf("headers are %v, want %v", got.Headers, want)
	}

	m.Metadata["ce_id"] = outbox.NewEventID().String() // beside Ce-Id
	if _, err := read(m).envelope(m.Payload); !errors.Is(err, outbox.ErrNotAnEvent) {
		t.Errorf("two ids: %v, want ErrNotAnEvent", err)
	}
	u := unreadable(m, outbox.ErrNotAnEvent)
	if u.Headers["Tenant"] != "7" || u.Headers["_watermill_delayed_for"] != "1s" || u.Reference != "" {
		t.Errorf("what is parked isn't as it came: %v, reference %q", u.Headers, u.Reference)
	}
}

// Names that differ in their letters only: what is read is the same each time.
func TestMetadataInOtherLetters(t *testing.T) {
	for range 100 {
		m, err := encode(brokersuite.Event("42", 7))
		if err != nil {
			t.Fatal(err)
		}
		m.Metadata["tenant"], m.Metadata["Tenant"], m.Metadata["TENANT"] = "c", "b", "a"
		e, err := read(m).envelope(m.Payload)
		if err != nil || e.Headers["tenant"] != "a,b,c" {
			t.Fatalf("read %q, %v, want a,b,c", e.Headers["tenant"], err)
		}
	}
}
