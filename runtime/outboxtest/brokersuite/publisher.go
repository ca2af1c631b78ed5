package brokersuite

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// PublisherFixture is a publisher and its broker, for one test.
type PublisherFixture struct {
	Publisher outbox.Publisher

	// Stored reads back what the broker holds, in its order, repeats included.
	Stored func(t *testing.T) []outbox.Envelope

	// Stop takes the broker down, with what it holds; Start brings it back.
	Stop, Start func(t *testing.T)

	// Stall lets the broker take messages without a confirm reaching the
	// publisher, until Unstall.
	Stall, Unstall func(t *testing.T)

	// FailOnce makes the broker refuse the next publish of this event, in a way
	// that passes.
	FailOnce func(t *testing.T, id uuid.UUID)
}

// RunPublisher runs the suite. factory makes a fresh broker for each test.
func RunPublisher(t *testing.T, factory func(t *testing.T) PublisherFixture) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, PublisherFixture)
	}{
		{"confirmed means stored", confirmedMeansStored},
		{"an event comes back as it was", publishedComesBack},
		{"order within an aggregate", orderWithinAggregate},
		{"a repeat is a success", repeatIsSuccess},
		{"nothing to publish", nothingToPublish},
		{"a failure holds back its aggregate", failureHoldsBack},
		{"a bad message is rejected alone", badMessageIsRejected},
		{"context ended before", contextEndedBefore},
		{"context ends while waiting", contextEndsWhileWaiting},
		{"broker down", brokerDown},
		{"broker goes down while publishing", brokerGoesDown},
		{"many callers", manyCallers},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, factory(t)) })
	}
}

func confirmedMeansStored(t *testing.T, f PublisherFixture) {
	sent := events("order-1", 20)
	for i, err := range f.Publisher.Publish(t.Context(), sent) {
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	compareIDs(t, f.Stored(t), sent)
}

func publishedComesBack(t *testing.T, f PublisherFixture) {
	sent := awkwardEvents()
	publish(t, f.Publisher, sent...)
	byID := make(map[uuid.UUID]outbox.Envelope)
	for _, e := range f.Stored(t) {
		byID[e.ID] = e
	}
	for _, want := range sent {
		if diff := compare(want, byID[want.ID]); diff != "" {
			t.Errorf("event changed on its way (-sent +stored):\n%s", diff)
		}
	}
}

func orderWithinAggregate(t *testing.T, f PublisherFixture) {
	var sent []outbox.Envelope
	a, b, c := events("a", 100), events("b", 100), events("c", 100)
	for i := range a {
		sent = append(sent, a[i], b[i], c[i])
	}
	publish(t, f.Publisher, sent...)
	stored := f.Stored(t)
	if len(stored) != len(sent) {
		t.Fatalf("%d events are stored, want %d", len(stored), len(sent))
	}
	checkOrder(t, stored)
}

// checkOrder fails when an aggregate's version comes after a later one of its own.
func checkOrder(t *testing.T, got []outbox.Envelope) {
	t.Helper()
	last := make(map[string]int64)
	for _, e := range got {
		if e.AggregateVersion < last[e.AggregateID] {
			t.Fatalf("version %d of %q comes after version %d", e.AggregateVersion, e.AggregateID, last[e.AggregateID])
		}
		last[e.AggregateID] = e.AggregateVersion
	}
}

func repeatIsSuccess(t *testing.T, f PublisherFixture) {
	e := Event("order-1", 1)
	for n := range 3 {
		if err := f.Publisher.Publish(t.Context(), []outbox.Envelope{e})[0]; err != nil {
			t.Fatalf("publish %d: %v", n+1, err)
		}
	}
	for _, stored := range f.Stored(t) {
		if stored.ID != e.ID {
			t.Errorf("the repeat has another event id: %s, want %s", stored.ID, e.ID)
		}
	}
}

func nothingToPublish(t *testing.T, f PublisherFixture) {
	if results := f.Publisher.Publish(t.Context(), nil); len(results) != 0 {
		t.Errorf("%d results for no message", len(results))
	}
}

func failureHoldsBack(t *testing.T, f PublisherFixture) {
	sent := events("order-1", 3)
	f.FailOnce(t, sent[1].ID)
	results := f.Publisher.Publish(t.Context(), sent)
	if results[0] != nil {
		t.Errorf("the message before the one that fails: %v", results[0])
	}
	if results[1] == nil {
		t.Fatal("the broker refused the message and it counts as published")
	}
	if results[2] == nil || outbox.FailureKindOf(results[2]) == outbox.FailureRejected {
		t.Errorf("the message behind the one that failed: %v, want it held back", results[2])
	}
	compareIDs(t, f.Stored(t), sent[:1])

	publish(t, f.Publisher, sent[1:]...)
	checkOrder(t, f.Stored(t))
}

func badMessageIsRejected(t *testing.T, f PublisherFixture) {
	header := func(name, value string) func(*outbox.Envelope) {
		return func(e *outbox.Envelope) { e.Headers = map[string]string{name: value} }
	}
	for name, spoil := range map[string]func(*outbox.Envelope){
		"broker's header":       header("nats-rollup", "all"),
		"in other letters":      header("Nats-Msg-Id", "1"),
		"attribute":             header("ce-id", "1"),
		"cc":                    header("cc", "x"),
		"bcc":                   header("bcc", "x"),
		"content type":          header("content-type", "application/cloudevents"),
		"line break":            header("note", "a\r\nnats-rollup: all"),
		"line feed":             header("note", "a\nb"),
		"blank in header name":  header("a b", "x"),
		"empty header name":     header("", "x"),
		"no id":                 func(e *outbox.Envelope) { e.ID = uuid.Nil },
		"no type":               func(e *outbox.Envelope) { e.Type = "" },
		"no payload":            func(e *outbox.Envelope) { e.Data = nil },
		"aggregate isn't UTF-8": func(e *outbox.Envelope) { e.AggregateID = "a\xff" },
	} {
		good, bad := Event("order-1", 1), Event("order-1", 2)
		spoil(&bad)
		after := Event("order-1", 3)
		results := f.Publisher.Publish(t.Context(), []outbox.Envelope{good, bad, after})
		if results[0] != nil || results[2] != nil {
			t.Errorf("%s: the other messages failed: %v, %v", name, results[0], results[2])
		}
		if outbox.FailureKindOf(results[1]) != outbox.FailureRejected {
			t.Errorf("%s: %v, want rejected", name, results[1])
		}
		if results[1] != nil && strings.Contains(results[1].Error(), "rollup: all") {
			t.Errorf("%s: the error shows a header's value: %v", name, results[1])
		}
	}
}

func contextEndedBefore(t *testing.T, f PublisherFixture) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i, err := range f.Publisher.Publish(ctx, events("order-1", 5)) {
		kind := outbox.FailureKindOf(err)
		if kind != outbox.FailureUnavailable && (i == 0 || kind != outbox.FailureHeldBack) {
			t.Errorf("%v, want unavailable, or held back for another one that was: nothing was sent", err)
		}
	}
	if n := len(f.Stored(t)); n > 0 {
		t.Errorf("%d events are stored", n)
	}
}

func contextEndsWhileWaiting(t *testing.T, f PublisherFixture) {
	f.Stall(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	sent := append(events("a", 3), events("b", 3)...)
	results := make(chan []error, 1)
	go func() { results <- f.Publisher.Publish(ctx, sent) }()
	unknown := 0
	for i, err := range receive(t, "Publish returns when its context ends", results) {
		switch outbox.FailureKindOf(err) {
		case outbox.FailureUnknown:
			unknown++
			if err == nil {
				t.Errorf("message %d counts as published", i)
			}
		case outbox.FailureUnavailable, outbox.FailureHeldBack:
		default:
			t.Errorf("message %d: %v, want unknown, unavailable or held back", i, err)
		}
	}
	if unknown == 0 {
		t.Error("no message is unknown, but the broker was handed some")
	}
	f.Unstall(t)
	publish(t, f.Publisher, sent...)
}

func brokerDown(t *testing.T, f PublisherFixture) {
	before := events("order-1", 1)
	publish(t, f.Publisher, before...)
	f.Stop(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	sent := events("order-2", 3)
	for _, err := range f.Publisher.Publish(ctx, sent) {
		if err == nil || !isOutage(err) {
			t.Errorf("%v, want unavailable, unknown or held back", err)
		}
	}
	f.Start(t)
	publish(t, f.Publisher, sent...)
	stored := make(map[uuid.UUID]bool)
	for _, e := range f.Stored(t) {
		stored[e.ID] = true
	}
	for _, e := range append(before, sent...) {
		if !stored[e.ID] {
			t.Errorf("event %s is lost", e.ID)
		}
	}
}

// brokerGoesDown stops the broker in the middle of a stream of calls: whatever was
// confirmed must be there afterwards.
func brokerGoesDown(t *testing.T, f PublisherFixture) {
	var confirmed []uuid.UUID
	begun := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range 2000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			sent := append(events("a", 10), events("b", 10)...)
			failed := false
			for i, err := range f.Publisher.Publish(ctx, sent) {
				if err == nil {
					confirmed = append(confirmed, sent[i].ID)
					continue
				}
				failed = true
				if !isOutage(err) {
					t.Errorf("%v, want unavailable, unknown or held back", err)
				}
			}
			cancel()
			if n == 5 {
				close(begun)
			}
			if failed {
				return
			}
		}
	}()
	receive(t, "some batches are published", begun)
	f.Stop(t)
	receive(t, "a publish fails", done)
	f.Start(t)
	stored := make(map[uuid.UUID]bool)
	for _, e := range f.Stored(t) {
		stored[e.ID] = true
	}
	for _, id := range confirmed {
		if !stored[id] {
			t.Fatalf("event %s was confirmed and is not stored", id)
		}
	}
}

func manyCallers(t *testing.T, f PublisherFixture) {
	var callers sync.WaitGroup
	const n, each = 8, 60
	for i := range n {
		callers.Go(func() {
			for _, err := range f.Publisher.Publish(t.Context(), events(string(rune('a'+i)), each)) {
				if err != nil {
					t.Errorf("caller %d: %v", i, err)
					return
				}
			}
		})
	}
	callers.Wait()
	stored := f.Stored(t)
	if len(stored) != n*each {
		t.Errorf("%d events are stored, want %d", len(stored), n*each)
	}
	checkOrder(t, stored)
}

// isOutage reports whether the error blames the broker, not the message.
func isOutage(err error) bool {
	switch outbox.FailureKindOf(err) {
	case outbox.FailureUnavailable, outbox.FailureUnknown, outbox.FailureHeldBack:
		return true
	default:
		return false
	}
}
