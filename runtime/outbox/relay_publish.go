package outbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"
)

// publishAll publishes batch after batch. After ctx has ended it gives back what
// is still coming.
func (r *relayRun) publishAll(ctx context.Context, in <-chan *leasedBatch, out chan<- *leasedBatch) {
	for batch := range in {
		if ctx.Err() != nil || !r.mayPublish(batch) {
			batch.outcomes = releaseAll(batch.Events)
		} else {
			batch.outcomes = r.publish(ctx, batch)
		}
		out <- batch
	}
}

// mayPublish holds when the broker is believed to be there and the lease leaves
// time for the publish. A batch that was claimed ahead of an outage is given back.
func (r *relayRun) mayPublish(b *leasedBatch) bool {
	if r.outage.active() && len(b.Events) > 1 {
		return false
	}
	left := time.Until(b.deadline)
	if left < r.cfg.PublishTimeout {
		r.log.Warn("too little of the lease is left to publish; the events are given back",
			"events", len(b.Events), "left", left)
		return false
	}
	return true
}

func (r *relayRun) publish(ctx context.Context, b *leasedBatch) []EventOutcome {
	var (
		outcomes = make([]EventOutcome, 0, len(b.Events))
		events   = make([]Event, 0, len(b.Events))
		messages = make([]Envelope, 0, len(b.Events))
	)
	for _, e := range b.Events {
		if e.Invalid != nil {
			outcomes = append(outcomes, EventOutcome{
				Key: e.Key, Kind: OutcomeDead, Failure: FailureRejected, Reason: e.Invalid.Error(),
			})
			continue
		}
		events = append(events, e)
		messages = append(messages, e.Envelope)
	}
	if len(messages) == 0 {
		return outcomes
	}

	results := r.publishMessages(ctx, b.deadline, messages)
	r.noteAvailability(results)
	unknown := 0
	for i, e := range events {
		o := r.outcome(e, results[i])
		switch {
		case o.Kind == OutcomeUnknown:
			unknown++
		case o.Failure == FailureUnavailable:
			// Others first: an event that the broker has no place for must not be
			// what every probe tries.
			o.Backoff = r.cfg.OutageBackoffMax
		}
		outcomes = append(outcomes, o)
	}
	if unknown > 0 {
		r.stats.unknown.Add(int64(unknown))
		r.warnUnknown(unknown, results)
	}
	return outcomes
}

// publishMessages returns a result for each message, whatever the publisher does.
func (r *relayRun) publishMessages(ctx context.Context, deadline time.Time, messages []Envelope) []error {
	results, panicked := r.callPublisher(ctx, messages)
	switch {
	case panicked && len(messages) == 1:
		return []error{PublishFailed(errPublisherPanicked)}
	case panicked:
		// One message is to blame. Singly, it alone fails, and is dead in the end;
		// the others, of which some may have been sent, are repeated.
		results = make([]error, 0, len(messages))
		for i := range messages {
			if time.Until(deadline) < r.cfg.PublishTimeout {
				results = append(results, PublishHeldBack(errPublisherPanicked))
				continue
			}
			results = append(results, r.publishMessages(ctx, deadline, messages[i:i+1])...)
		}
		return results
	case len(results) != len(messages):
		err := PublishUnknown(fmt.Errorf("the publisher returned %d results for %d messages", len(results), len(messages)))
		return slices.Repeat([]error{err}, len(messages))
	default:
		return results
	}
}

var errPublisherPanicked = errors.New("the publisher panicked")

func (r *relayRun) callPublisher(ctx context.Context, messages []Envelope) (results []error, panicked bool) {
	// A stop lets the publish finish or time out: cutting it short would only
	// turn confirms into unknowns.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.PublishTimeout)
	defer cancel()
	defer func() {
		if value := recover(); value != nil {
			panicked = true // the value may hold payload, its type and the stack don't
			r.log.Error("the publisher panicked", "messages", len(messages),
				"type", fmt.Sprintf("%T", value), "stack", string(debug.Stack()))
		}
	}()
	return r.publisher.Publish(ctx, messages), false
}

// outcome says what a publisher's answer means for the event.
func (r *relayRun) outcome(e Event, err error) EventOutcome {
	o := EventOutcome{Key: e.Key}
	if err == nil {
		o.Kind = OutcomePublished
		r.stats.confirmed.Add(1)
		return o
	}
	o.Failure, o.Reason = FailureKindOf(err), err.Error()
	switch o.Failure {
	case FailureRejected:
		o.Kind = OutcomeDead
	case FailureFailed:
		attempt := e.Attempts + 1
		if attempt >= r.cfg.MaxAttempts {
			o.Kind = OutcomeDead
		} else {
			o.Kind = OutcomeRetry
			o.Backoff = backoff(r.cfg.RetryBackoff, r.cfg.RetryBackoffMax, attempt)
		}
	case FailureUnavailable, FailureHeldBack:
		o.Kind = OutcomeReleased
	default:
		o.Kind = OutcomeUnknown
	}
	return o
}

// warnUnknown warns once a batch.
func (r *relayRun) warnUnknown(count int, results []error) {
	i := slices.IndexFunc(results, func(err error) bool {
		return err != nil && FailureKindOf(err) == FailureUnknown
	})
	r.log.Warn("publish outcomes unknown; the events are due again when their leases end",
		"events", count, "first error", results[i])
}

// noteAvailability begins, prolongs or ends an outage.
//
// One message that was answered, with a yes or a no, shows that the broker is
// there, whatever became of the others. A call in which nobody was answered is an
// outage, also when it isn't known what became of the messages.
func (r *relayRun) noteAvailability(results []error) {
	var unanswered error
	for _, err := range results {
		switch kind := FailureKindOf(err); {
		case err == nil, kind == FailureFailed, kind == FailureRejected:
			if r.outage.end() {
				r.log.Info("the broker is available again")
			}
			return
		case unanswered == nil:
			unanswered = err
		}
	}
	pause, isNew := r.outage.begin(unanswered.Error())
	r.stats.pauses.Add(1)
	if isNew {
		r.log.Warn("the broker does not answer; pausing", "pause", pause, "error", unanswered)
	}
}

func releaseAll(events []Event) []EventOutcome {
	outcomes := make([]EventOutcome, len(events))
	for i, e := range events {
		outcomes[i] = EventOutcome{Key: e.Key, Kind: OutcomeReleased}
	}
	return outcomes
}
