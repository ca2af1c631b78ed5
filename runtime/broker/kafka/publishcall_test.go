package kafka

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
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

// TestUnknownHoldsBack: behind an event whose outcome an answer leaves open nothing of its
// aggregate is sent.
func TestUnknownHoldsBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	p := r.publisher(PublisherConfig{})
	sent := events(1, 3)
	fault := r.refuse(kerr.RequestTimedOut, -1, sent[0].ID)
	results := p.Publish(t.Context(), sent)
	fault.Remove()
	wantKind(t, "the answer leaves it open", results[0], outbox.FailureUnknown)
	for _, err := range results[1:] {
		wantKind(t, "behind it", err, outbox.FailureHeldBack)
	}
	if n := len(r.stored()); n != 1 {
		t.Errorf("%d events are stored, want the first alone", n)
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
	// A connection may break before the broker has read what was sent.
	if n := observed.Hits(); n == 0 || n > recordRetries+1 {
		t.Errorf("it was sent %d times, want at most %d", n, recordRetries+1)
	}
}

// TestUnknownTopicBesideOthers: an event whose topic doesn't exist was certainly not sent,
// though the answer to another one is still to come.
func TestUnknownTopicBesideOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	lost, sent := brokersuite.Event("lost", 1), brokersuite.Event("sent", 1)
	p := r.publisher(PublisherConfig{AckTimeout: time.Second, Topic: func(e outbox.Envelope) string {
		if e.ID == lost.ID {
			return "nowhere"
		}
		return topic
	}})
	r.publish(p, events(1, 1))
	r.network.setMute(true)
	results := p.Publish(t.Context(), []outbox.Envelope{lost, sent})
	wantKind(t, "no topic", results[0], outbox.FailureUnavailable)
	wantKind(t, "no answer", results[1], outbox.FailureUnknown)
}

// TestManyAndNoAnswer: no buffer of franz-go's, which waits for room without an end, keeps
// Publish from returning.
func TestManyAndNoAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	cluster := r.via()
	cluster.Options = append(cluster.Options, kgo.MaxBufferedRecords(10))
	p, err := NewPublisher(cluster, PublisherConfig{AckTimeout: time.Second, Topic: toTopic})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r.publish(p, events(1, 1))
	r.network.setHold(true)
	returned := make(chan []error, 1)
	go func() { returned <- p.Publish(t.Context(), events(20, 1)) }()
	select {
	case results := <-returned:
		if slices.Contains(results, nil) {
			t.Error("an event counts as published that was never sent")
		}
	case <-time.After(30 * time.Second):
		t.Error("Publish doesn't return")
	}
	r.network.setHold(false)
}

// TestAloneMeansAlone: the events of a refused batch that are tried alone don't share a
// batch, whichever call they are of.
func TestAloneMeansAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	p := r.publisher(PublisherConfig{})
	r.publish(p, events(1, 1))
	all := events(20, 1)
	r.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidRecord, Count: -1,
		When: func(req kmsg.Request) bool {
			n := 0
			for _, e := range all {
				if holds(req, e.ID) {
					n++
				}
			}
			return n > 1
		},
	})
	r.network.setHold(true)
	var calls sync.WaitGroup
	for i := range all {
		calls.Go(func() {
			if err := p.Publish(t.Context(), all[i:i+1])[0]; err != nil {
				t.Errorf("event %d: %v", i, err)
			}
		})
	}
	eventually(t, "the client has them all", func() bool { return p.bulk.client.BufferedProduceRecords() == int64(len(all)) })
	r.network.setHold(false)
	calls.Wait()
	if p.single == nil {
		t.Error("no event was tried alone: the test shows nothing")
	}
}

// TestConnCounts: what a record's way is judged by.
func TestConnCounts(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	const produce, other = int16(kmsg.Produce), int16(kmsg.Metadata)
	type counts struct{ writes, reads, breaks int64 }
	for name, c := range map[string]struct {
		do   func(*connCounts)
		want counts
	}{
		"written":            {func(c *connCounts) { c.OnBrokerWrite(kgo.BrokerMetadata{}, produce, 10, 0, 0, nil) }, counts{writes: 1}},
		"written in part":    {func(c *connCounts) { c.OnBrokerWrite(kgo.BrokerMetadata{}, produce, 1, 0, 0, broken) }, counts{writes: 1}},
		"not written":        {func(c *connCounts) { c.OnBrokerWrite(kgo.BrokerMetadata{}, produce, 0, 0, 0, broken) }, counts{}},
		"another request":    {func(c *connCounts) { c.OnBrokerWrite(kgo.BrokerMetadata{}, other, 10, 0, 0, nil) }, counts{}},
		"answered":           {func(c *connCounts) { c.OnBrokerE2E(kgo.BrokerMetadata{}, produce, kgo.BrokerE2E{}) }, counts{reads: 1}},
		"not answered":       {func(c *connCounts) { c.OnBrokerE2E(kgo.BrokerMetadata{}, produce, kgo.BrokerE2E{ReadErr: broken}) }, counts{breaks: 1}},
		"another's answer":   {func(c *connCounts) { c.OnBrokerE2E(kgo.BrokerMetadata{}, other, kgo.BrokerE2E{}) }, counts{}},
		"a connection's end": {func(c *connCounts) { c.OnBrokerDisconnect(kgo.BrokerMetadata{}, nil) }, counts{breaks: 1}},
	} {
		got := new(connCounts)
		c.do(got)
		if got := (counts{got.writes.Load(), got.reads.Load(), got.breaks.Load()}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestLostAnswerBeforeRefusal: the event was appended, the answer lost, and franz-go's repeat
// of it refused. What the refusal says isn't true of the event.
func TestLostAnswerBeforeRefusal(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	p := r.publisher(PublisherConfig{AckTimeout: 20 * time.Second})
	r.publish(p, events(1, 1))
	var first kmsg.Request
	r.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1,
		When: func(req kmsg.Request) bool {
			if first == nil {
				first = req
			}
			return req != first
		},
	})
	r.network.setMute(true)
	result := make(chan error, 1)
	go func() { result <- p.Publish(t.Context(), events(1, 1))[0] }()
	eventually(t, "it is appended", func() bool { return len(r.stored()) == 2 })
	r.network.setMute(false)
	r.network.cut()
	wantKind(t, "appended", <-result, outbox.FailureUnknown)
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
