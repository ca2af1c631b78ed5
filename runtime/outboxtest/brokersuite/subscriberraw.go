package brokersuite

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// needRaw skips a test where the fixture says why it has no Raw.
func needRaw(t *testing.T, f SubscriberFixture) {
	t.Helper()
	switch {
	case f.Raw == nil && f.RawUnsupported == "":
		t.Fatal("the fixture has neither Raw nor a reason for that")
	case f.Raw == nil:
		t.Skip(f.RawUnsupported)
	}
}

func unreadableIsParked(t *testing.T, f SubscriberFixture) {
	needRaw(t, f)
	h := newHandler("projector", nil)
	start(t, f, h)
	body := []byte("neither JSON nor an event \x00\xff")
	f.Raw(t, body, map[string]string{"note": "as it came"})
	e := Event("order-1", 1)
	publish(t, f.Publisher, e)
	compareIDs(t, h.wait(t, 1), []outbox.Envelope{e})
	parked := h.waitParked(t, 1)[0]
	if !errors.Is(parked.Reason, outbox.ErrNotAnEvent) {
		t.Errorf("its reason is %v, want ErrNotAnEvent", parked.Reason)
	}
	if !bytes.Equal(parked.Body, body) {
		t.Errorf("its body is %q", parked.Body)
	}
	if parked.Headers["note"] != "as it came" {
		t.Errorf("its headers are %v", parked.Headers)
	}
	acknowledged(t, f, h)
	if n := len(h.allParked()); n != 1 {
		t.Errorf("it was parked %d times", n)
	}
	if n := f.Stats.Unreadable.Load(); n != 1 {
		t.Errorf("%d unreadable messages are counted, want 1", n)
	}
}

func parkingIsRepeated(t *testing.T, f SubscriberFixture) {
	needRaw(t, f)
	h := newHandler("projector", nil)
	var calls atomic.Int64
	h.park = func() error {
		if calls.Add(1) < 3 {
			return errors.New("not yet")
		}
		return nil
	}
	start(t, f, h)
	f.Raw(t, []byte("garbage"), nil)
	parked := h.waitParked(t, 3)
	for _, again := range parked[1:] {
		if again.Reference != parked[0].Reference {
			t.Errorf("its reference was %q and is %q", parked[0].Reference, again.Reference)
		}
	}
	acknowledged(t, f, h)
	if n := len(h.allParked()); n != 3 {
		t.Errorf("it was handed to Park %d times, want 3", n)
	}
}

func structuredMode(t *testing.T, f SubscriberFixture) {
	needRaw(t, f)
	h := newHandler("projector", nil)
	start(t, f, h)
	want := Event(`Ärger "1" 100%`, 7)
	want.Headers = map[string]string{"tenant": "Österreich"}
	body := fmt.Sprintf(`{"specversion": "1.0", "id": %q, "source": %q, "type": %q, "subject": "Ärger \"1\" 100%%",
		"time": "2026-02-03T04:05:06.789012Z", "datacontenttype": "application/json",
		"aggregatetype": "order", "aggregateversion": 7, "schemaversion": "1", "data": %s}`,
		want.ID, want.Source, want.Type, want.Data)
	f.Raw(t, []byte(body), map[string]string{"content-type": outbox.StructuredType + "; charset=UTF-8", "tenant": "Österreich"})
	if diff := compare(want, h.wait(t, 1)[0]); diff != "" {
		t.Errorf("event changed on its way (-sent +handled):\n%s", diff)
	}
	acknowledged(t, f, h)
	if n := len(h.allParked()); n != 0 {
		t.Errorf("%d messages were parked", n)
	}
}
