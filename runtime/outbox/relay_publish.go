package outbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/outboxgen/outboxgen/internal/fault"
)

// publish hands the batch to the publisher and returns what became of its events.
// The epoch is the outage's when it was let through.
func (r *relayRun) publish(ctx context.Context, b *leasedBatch, epoch int) []EventOutcome {
	outcomes := make([]EventOutcome, 0, len(b.Events))
	events := b.Events
	if slices.ContainsFunc(events, isInvalid) {
		events = make([]Event, 0, len(b.Events))
		for _, e := range b.Events {
			if !isInvalid(e) {
				events = append(events, e)
				continue
			}
			outcomes = append(outcomes, EventOutcome{
				Key: e.Key, Kind: OutcomeDead, Failure: FailureRejected, Reason: e.Invalid.Error(),
			})
		}
		if len(events) == 0 {
			return outcomes
		}
	}
	messages := make([]Envelope, len(events))
	for i := range events {
		messages[i] = events[i].Envelope
		messages[i].RepeatCause = r.repeatOf(&events[i])
	}

	began := time.Now()
	results := r.publishMessages(ctx, b, messages)
	r.observer.answered(events, results, time.Since(began))
	r.noteAvailability(epoch, results)
	if b.Ordered {
		r.noteOrder(events, messages, results)
	}
	r.noteUnknown(results)
	for i := range events {
		outcomes = append(outcomes, r.outcome(&events[i], results[i]))
	}
	return outcomes
}

func isInvalid(e Event) bool { return e.Invalid != nil }

// publishMessages returns a result for each message, whatever the publisher does.
func (r *relayRun) publishMessages(ctx context.Context, b *leasedBatch, messages []Envelope) []error {
	results, panicked := r.callPublisher(ctx, b, messages)
	switch {
	case panicked:
		return r.publishSingly(ctx, b, messages)
	case len(results) != len(messages):
		err := PublishUnknown(fmt.Errorf("the publisher returned %d results for %d messages", len(results), len(messages)))
		return slices.Repeat([]error{err}, len(messages))
	default:
		return results
	}
}

func (r *relayRun) callPublisher(ctx context.Context, b *leasedBatch, messages []Envelope) (results []error, panicked bool) {
	// A stop lets the publish finish or time out: cutting it short would only
	// turn confirms into unknowns.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.PublishTimeout)
	defer cancel()
	b.waitUntil(time.Now().Add(r.cfg.PublishTimeout + r.cfg.Lease))
	defer func() {
		if value := recover(); value != nil {
			panicked = true // the value may hold payload, its type and the stack don't
			r.troubles.panicked.note(1, "messages", len(messages),
				"type", fmt.Sprintf("%T", value), "stack", string(debug.Stack()))
		}
	}()
	if err := fault.At(ctx, fault.RelayPublish); err != nil {
		return slices.Repeat([]error{PublishUnavailable(err)}, len(messages)), false
	}
	results = r.publisher.Publish(ctx, messages)
	if err := fault.At(ctx, fault.RelayConfirmed); err != nil {
		results = slices.Repeat([]error{PublishUnknown(err)}, len(messages))
	}
	return results, false
}

// outcome says what a publisher's answer means for the event.
func (r *relayRun) outcome(e *Event, err error) EventOutcome {
	o := EventOutcome{Key: e.Key}
	if err == nil {
		o.Kind = OutcomePublished
		r.stats.confirmed.Add(1)
		return o
	}
	switch kind := FailureKindOf(err); kind {
	case FailureRejected:
		o.Kind, o.Failure, o.Reason = OutcomeDead, kind, reason(err)
	case FailureFailed:
		attempt := e.Attempts + 1
		o.Kind, o.Failure, o.Reason = OutcomeRetry, kind, reason(err)
		if attempt >= r.cfg.MaxAttempts {
			o.Kind = OutcomeDead
		} else {
			o.Backoff = backoff(r.cfg.RetryBackoff, r.cfg.RetryBackoffMax, attempt)
		}
	case FailureUnavailable:
		// Others first: an event that the broker has no place for must not be
		// what every probe tries.
		o.Kind, o.Backoff = OutcomeReleased, r.cfg.OutageBackoffMax
	case FailureHeldBack:
		o.Kind = OutcomeReleased
	default:
		o.Kind = OutcomeUnknown
		r.stats.unknown.Add(1)
	}
	return o
}

// reason is err's text. fmt survives an error that panics when asked for it.
func reason(err error) string { return fmt.Sprint(err) }

// noteAvailability begins, prolongs or ends an outage.
//
// One message that was answered, with a yes or a no, shows that the broker is
// there, whatever became of the others. A call in which nobody was answered is an
// outage, also when it isn't known what became of the messages.
func (r *relayRun) noteAvailability(epoch int, results []error) {
	if slices.ContainsFunc(results, isAnswer) {
		if r.outage.end(epoch) {
			r.troubles.broker.end()
			r.pulse.resumed()
			r.observer.resumed()
			notify(r.changed)
		}
		return
	}
	pause, ok := r.outage.begin(epoch)
	if !ok {
		return
	}
	r.stats.pauses.Add(1)
	r.pulse.paused()
	r.troubles.broker.note(1, "pause", pause, "error", results[0])
	r.observer.paused(pause, results[0])
}

// isAnswer reports whether the broker has said what became of the message.
func isAnswer(result error) bool {
	if result == nil {
		return true
	}
	kind := FailureKindOf(result)
	return (kind == FailureFailed || kind == FailureRejected) && !errors.Is(result, errPublisherPanicked)
}

// noteUnknown tells of messages that the broker may have or not.
func (r *relayRun) noteUnknown(results []error) {
	count, first := 0, error(nil)
	for _, result := range results {
		if result != nil && FailureKindOf(result) == FailureUnknown {
			if count == 0 {
				first = result
			}
			count++
		}
	}
	if count == 0 {
		if slices.ContainsFunc(results, isAnswer) {
			r.troubles.unknown.end()
		}
		return
	}
	r.troubles.unknown.note(count, "first error", first)
}

// noteOrder tells of a publisher that doesn't keep the order. What was confirmed
// counts all the same: publishing it again would not mend it.
func (r *relayRun) noteOrder(events []Event, messages []Envelope, results []error) {
	count, first := outOfOrder(messages, results)
	if count == 0 {
		return
	}
	r.stats.outOfOrder.Add(int64(count))
	r.troubles.order.note(count, "first", events[first].Key)
}
