package kafka

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// TestFailedHoldsBack: an event that the broker refuses for now keeps back those behind
// it, and no other aggregate's.
func TestFailedHoldsBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	p := r.publisher(PublisherConfig{})
	sent := events(2, 4) // in turns: order-0, order-1
	bad := sent[2]       // version 2 of order-0
	fault := r.refuse(kerr.InvalidTimestamp, -1, bad.ID)
	for i, err := range p.Publish(t.Context(), sent) {
		switch {
		case i == 2:
			wantKind(t, "refused", err, outbox.FailureFailed)
		case i > 2 && i%2 == 0:
			wantKind(t, "behind it", err, outbox.FailureHeldBack)
		case err != nil:
			t.Errorf("event %d: %v", i, err)
		}
	}
	fault.Remove()
	if n := len(r.stored()); n != 5 {
		t.Errorf("%d events are stored, want 5", n)
	}
}

// TestUnordered: events of one aggregate go one at a time, unless the outbox has no order.
func TestUnordered(t *testing.T) {
	t.Parallel()
	const n = 50
	for unordered, want := range map[bool]func(requests int) bool{
		false: func(requests int) bool { return requests == n },
		true:  func(requests int) bool { return requests < n/2 },
	} {
		r := newRig(t, 1)
		p := r.publisher(PublisherConfig{Unordered: unordered})
		observed := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Observe: true, Count: -1})
		r.publish(p, events(1, n))
		if requests := observed.Hits(); !want(requests) {
			t.Errorf("unordered %v: %d events in %d requests", unordered, n, requests)
		}
	}
}

// TestGivesUpOnBrokenConnections: the connection breaks whenever the event is sent. franz-go
// sends it as often as it may, and no more while AckTimeout lasts.
func TestGivesUpOnBrokenConnections(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	p := r.publisher(PublisherConfig{AckTimeout: time.Minute})
	observed := r.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Observe: true, Count: -1,
		When: func(kmsg.Request) bool { r.network.cut(); return true },
	})
	wantKind(t, "never answered", p.Publish(t.Context(), events(1, 1))[0], outbox.FailureUnknown)
	if n := observed.Hits(); n != recordRetries+1 {
		t.Errorf("it was sent %d times, want %d", n, recordRetries+1)
	}
}

// TestAloneIsNotSentLater: the event of a refused batch is stuck on its way when it is tried
// alone. It must not arrive when its outcome has been called unknown.
func TestAloneIsNotSentLater(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	p := r.publisher(PublisherConfig{AckTimeout: 300 * time.Millisecond})
	r.publish(p, events(1, 1))
	r.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidRecord,
		When: func(kmsg.Request) bool { r.network.setHold(true); return true },
	})
	err := p.Publish(t.Context(), events(1, 1))[0]
	if kind := outbox.FailureKindOf(err); err == nil || kind != outbox.FailureUnknown && kind != outbox.FailureUnavailable {
		t.Errorf("%v, want unknown or unavailable", err)
	}
	stuck := p.single
	r.network.setHold(false)
	r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidRecord})
	r.publish(p, events(1, 1)) // alone as well: behind what a client that was kept would send
	if stuck != nil {
		t.Error("the client that has the event is kept")
	}
	if n := len(r.stored()); n != 2 {
		t.Errorf("%d events are stored, want 2", n)
	}
}

// TestTopicIsMadeAnewForAlone: also the client of events that are tried alone learns
// that a topic was made anew.
func TestTopicIsMadeAnewForAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	p := r.publisher(PublisherConfig{})
	refuseBatch := func() *kfake.FaultHandle { return r.refuse(kerr.InvalidRecord, 1, uuid.Nil) }
	refuseBatch()
	r.publish(p, events(1, 1))
	if p.single == nil {
		t.Fatal("no event was tried alone")
	}
	admin := kadm.NewClient(r.admin)
	if _, err := admin.DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new topic takes a batch", func() bool { return errors.Join(p.Publish(t.Context(), events(1, 1))...) == nil })
	eventually(t, "and an event alone", func() bool {
		defer refuseBatch().Remove()
		return errors.Join(p.Publish(t.Context(), events(1, 1))...) == nil
	})
}
