package outboxotel_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxotel"
	"github.com/outboxgen/outboxgen/runtime/purge"
)

func event(eventType string) outbox.Event {
	id := outbox.NewEventID()
	return outbox.Event{Key: id.String(), Envelope: outbox.Envelope{
		ID: id, Type: eventType, AggregateType: "order", AggregateID: "secret", Time: time.Now().Add(-time.Second),
		Data: []byte(`{"note":"secret"}`),
	}}
}

func TestRelayMetrics(t *testing.T) {
	s := newSink(t)
	o := s.Relay()
	s.check(t, map[string]float64{"outbox.relay.paused{}": 0})
	events := []outbox.Event{event("order.accepted"), event("order.accepted"), event("order.cancelled"), event("order.renamed")}
	o.Claimed(outbox.Claimed{Events: events, Took: time.Millisecond})
	o.Answered(outbox.Answered{Events: events, Took: time.Millisecond, Errors: []error{
		nil, outbox.PublishUnknown(errors.New("secret")), outbox.PublishHeldBack(errors.New("secret")), nil,
	}})
	o.Settled(outbox.Settled{Took: time.Millisecond, Settlement: outbox.Settlement{Lost: []string{events[3].Key}}, Outcomes: []outbox.EventOutcome{
		{Key: events[0].Key, Kind: outbox.OutcomePublished},
		{Key: events[1].Key, Kind: outbox.OutcomeUnknown},
		{Key: events[2].Key, Kind: outbox.OutcomeRetry, Failure: outbox.FailureFailed, Reason: "secret"},
		{Key: events[3].Key, Kind: outbox.OutcomePublished},
		{Key: "x", Kind: outbox.OutcomeDead, Failure: outbox.FailureRejected, Reason: "secret"},
		{Key: "y", Kind: outbox.OutcomeReleased},
	}})
	o.Abandoned(3)
	o.Paused(outbox.Paused{For: time.Second, Error: errors.New("secret")})
	o.StoreFailed(outbox.StoreFailed{Call: "claim", Error: errors.New("secret")})
	o.Backlog(outbox.Backlog{Waiting: 7, Dead: 2, OldestDue: 90 * time.Second})
	s.check(t, map[string]float64{
		"outbox.relay.batch.size{}":                                         1,
		"outbox.relay.claim.duration{}":                                     1,
		"outbox.relay.publish.duration{}":                                   1,
		"outbox.relay.settle.duration{}":                                    1,
		"outbox.relay.confirm.latency{event_type=order.accepted}":           1,
		"outbox.relay.confirm.latency{event_type=other}":                    1,
		"outbox.relay.answers{event_type=order.accepted,result=confirmed}":  1,
		"outbox.relay.answers{event_type=order.accepted,result=unknown}":    1,
		"outbox.relay.answers{event_type=order.cancelled,result=held_back}": 1,
		"outbox.relay.settled{outcome=published}":                           1,
		"outbox.relay.settled{outcome=unknown}":                             1,
		"outbox.relay.settled{outcome=released}":                            1,
		"outbox.relay.settled{failure=failed,outcome=retry}":                1,
		"outbox.relay.settled{failure=rejected,outcome=dead}":               1,
		"outbox.relay.stale_marks{}":                                        1,
		"outbox.relay.abandoned{}":                                          3,
		"outbox.relay.pauses{}":                                             1,
		"outbox.relay.paused{}":                                             1,
		"outbox.relay.store.failures{call=claim}":                           1,
		"outbox.backlog{state=waiting}":                                     7,
		"outbox.backlog{state=dead}":                                        2,
		"outbox.backlog.oldest_age{}":                                       90,
	})
	o.Resumed()
	s.check(t, map[string]float64{"outbox.relay.paused{}": 0, "outbox.relay.on_hold{}": 0})
	o.OnHold(&outbox.Hold{Operator: "secret", Reason: "secret"})
	s.check(t, map[string]float64{"outbox.relay.on_hold{}": 1})
	o.OnHold(nil)
	s.check(t, map[string]float64{"outbox.relay.on_hold{}": 0})
	noSecrets(t, s)
}

func TestConsumerMetrics(t *testing.T) {
	s := newSink(t)
	o, ctx := s.Consumer(), t.Context()
	handled := func(h outbox.Handled) {
		h.Consumer, h.EventType, h.Created = "planner", "order.accepted", time.Now().Add(-time.Second)
		o.Handled(ctx, h)
	}
	handled(outbox.Handled{Handling: outbox.Applied})
	handled(outbox.Handled{Handling: outbox.Applied, Redrive: true})
	handled(outbox.Handled{Handling: outbox.Duplicate, Cause: outbox.RepeatLeaseExpired})
	handled(outbox.Handled{Handling: outbox.Parked, Kind: "payload"})
	handled(outbox.Handled{Handling: outbox.Skipped})
	o.Failed(ctx, outbox.HandlingFailed{Consumer: "planner", EventType: "order.accepted", Kind: outbox.FailureFailed})
	const of = "{consumer=planner,event_type=order.accepted"
	s.check(t, map[string]float64{
		"outbox.consumer.handled" + of + ",handling=applied}":                  2,
		"outbox.consumer.handled" + of + ",handling=skipped}":                  1,
		"outbox.consumer.effect.latency" + of + "}":                            1,
		"outbox.consumer.handle.duration{consumer=planner,handling=duplicate}": 1,
		"outbox.consumer.duplicates{cause=lease-expired,consumer=planner}":     1,
		"outbox.consumer.parked{consumer=planner,kind=payload}":                1,
		"outbox.consumer.failures" + of + ",failure=failed}":                   1,
	})
}

// What others write can't make more series than events.yaml allows for.
func TestSeriesAreBounded(t *testing.T) {
	s := newSink(t)
	relay, consumer, ctx := s.Relay(), s.Consumer(), t.Context()
	declared := len(s.series(t))
	random := func() string { return fmt.Sprintf("secret-%x", rand.Uint64()) }
	for range 10_000 {
		e := event(random())
		failed := errors.New(random())
		relay.Answered(outbox.Answered{Events: []outbox.Event{e, e}, Errors: []error{nil, &outbox.PublishError{Kind: outbox.FailureKind(rand.IntN(1000)), Err: failed}}})
		relay.Settled(outbox.Settled{Outcomes: []outbox.EventOutcome{{
			Key: e.Key, Kind: outbox.OutcomeKind(rand.IntN(1000)), Failure: outbox.FailureKind(rand.IntN(1000)), Reason: random(),
		}}})
		relay.StoreFailed(outbox.StoreFailed{Call: random(), Error: failed})
		ctx := consumer.Begin(ctx, outbox.Begun{Consumer: random(), EventType: e.Envelope.Type, EventID: e.Key, Repeat: outbox.RepeatCause(random())})
		consumer.Handled(ctx, outbox.Handled{
			Consumer: random(), EventType: e.Envelope.Type, Handling: outbox.Handling(rand.IntN(1000)),
			Created: e.Envelope.Time, Cause: outbox.RepeatCause(random()), Kind: random(),
		})
		consumer.Handled(ctx, outbox.Handled{Consumer: random(), Handling: outbox.Duplicate, Cause: outbox.RepeatCause(random())})
		consumer.Handled(ctx, outbox.Handled{Consumer: random(), Handling: outbox.Parked, Kind: random()})
		consumer.Failed(ctx, outbox.HandlingFailed{Consumer: random(), EventType: random(), Kind: outbox.FailureKind(rand.IntN(1000))})
	}
	got := s.series(t)
	if more := len(got) - declared; more > 40 || len(got) > 200 {
		t.Errorf("%d series beside the %d declared, of 10,000 random types, consumers and reasons", more, declared)
	}
	t.Logf("%d series, %d declared", len(got), declared)
	noSecrets(t, s)
}

// noSecrets looks through names, attributes and spans.
func noSecrets(t *testing.T, s *sink) {
	t.Helper()
	for name := range s.series(t) {
		if strings.Contains(name, "secret") {
			t.Errorf("%s", name)
		}
	}
	for _, span := range s.spans.GetSpans() {
		if text := fmt.Sprintf("%+v", span); strings.Contains(text, "secret") {
			t.Errorf("%s", text)
		}
	}
}

func TestSubscriptionMetrics(t *testing.T) {
	s := newSink(t)
	var stats outbox.SubscribeStats
	if err := s.Subscription("planner", &stats); err != nil {
		t.Fatal(err)
	}
	stats.Delivered.Add(5)
	stats.AckFailed.Add(1)
	s.check(t, map[string]float64{
		"outbox.subscription.delivered{consumer=planner}":   5,
		"outbox.subscription.ack_failed{consumer=planner}":  1,
		"outbox.subscription.redelivered{consumer=planner}": 0,
	})
}

func TestPurgerMetrics(t *testing.T) {
	s := newSink(t)
	for _, name := range []string{"events", "dedup"} {
		if err := s.Purger(name, new(purge.Purger)); err != nil {
			t.Fatal(err)
		}
	}
	s.check(t, map[string]float64{"outbox.purge.passes{purger=events}": 0, "outbox.purge.dedup_rows{purger=dedup}": 0})
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		var isAway atomic.Bool
		away := func() error {
			if isAway.Load() {
				return errors.New("away")
			}
			return nil
		}
		go func() {
			done <- s.Watch(ctx, outboxotel.WatchConfig{
				Interval: 10 * time.Second,
				Backlog:  func(context.Context) (outbox.Backlog, error) { return outbox.Backlog{Waiting: 3}, away() },
				Parked: func(context.Context) (map[string]int64, error) {
					return map[string]int64{"planner": 2, "gone": 1}, away()
				},
			})
		}()
		synctest.Wait()
		want := map[string]float64{
			"outbox.backlog{state=waiting}": 3, "outbox.backlog{state=dead}": 0,
			"outbox.parked{consumer=planner}": 2, "outbox.parked{consumer=report}": 0, "outbox.parked{consumer=other}": 1,
		}
		s.check(t, want)
		isAway.Store(true)
		time.Sleep(15 * time.Second)
		want["outbox.watch.failures{call=backlog}"], want["outbox.watch.failures{call=parked}"] = 1, 1
		s.check(t, want)
		time.Sleep(4 * time.Minute)
		got := s.series(t)
		for name := range want {
			if _, has := got[name]; has != strings.HasPrefix(name, "outbox.watch") {
				t.Errorf("after minutes without a count: %s is shown: %v", name, has)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
