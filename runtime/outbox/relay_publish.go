package outbox

import (
	"context"
	"fmt"
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
	return time.Until(b.deadline) >= r.cfg.PublishTimeout
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

	// A stop lets the publish finish or time out: cutting it short would only
	// turn confirms into unknowns.
	publishCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.PublishTimeout)
	results := r.publisher.Publish(publishCtx, messages)
	cancel()

	if len(results) != len(messages) {
		err := PublishUnknown(fmt.Errorf("the publisher returned %d results for %d messages", len(results), len(messages)))
		results = slices.Repeat([]error{err}, len(messages))
	}
	for i, e := range events {
		outcomes = append(outcomes, r.outcome(e, results[i]))
	}
	r.noteAvailability(results)
	return outcomes
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
	case FailureUnavailable:
		o.Kind = OutcomeReleased
	default:
		o.Kind = OutcomeUnknown
		r.stats.unknown.Add(1)
		r.log.Warn("publish outcome unknown; the event is due again when its lease ends",
			"event", e.Key, "error", err)
	}
	return o
}

// noteAvailability begins, prolongs or ends an outage. One message that was
// answered, with a yes or a no, shows that the broker is there, whatever became
// of the others: a publisher may hold back those behind one that failed.
func (r *relayRun) noteAvailability(results []error) {
	var unavailable error
	for _, err := range results {
		switch kind := FailureKindOf(err); {
		case err == nil, kind == FailureFailed, kind == FailureRejected:
			if r.outage.end() {
				r.log.Info("the broker is available again")
			}
			return
		case kind == FailureUnavailable:
			unavailable = err
		}
	}
	if unavailable == nil {
		return
	}
	pause, isNew := r.outage.begin()
	r.stats.pauses.Add(1)
	if isNew {
		r.log.Warn("the broker is unavailable; pausing", "pause", pause, "error", unavailable)
	}
}

func releaseAll(events []Event) []EventOutcome {
	outcomes := make([]EventOutcome, len(events))
	for i, e := range events {
		outcomes[i] = EventOutcome{Key: e.Key, Kind: OutcomeReleased}
	}
	return outcomes
}
