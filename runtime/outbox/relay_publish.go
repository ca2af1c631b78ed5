package outbox

import (
	"context"
	"fmt"
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

	var unavailable error
	for i, e := range events {
		err := error(nil)
		if len(results) == len(messages) {
			err = results[i]
		} else {
			err = PublishUnknown(fmt.Errorf("the publisher returned %d results for %d messages", len(results), len(messages)))
		}
		if err != nil && FailureKindOf(err) == FailureUnavailable {
			unavailable = err
		}
		outcomes = append(outcomes, r.outcome(e, err))
	}
	r.noteAvailability(outcomes, unavailable)
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

// noteAvailability begins, prolongs or ends an outage. A batch that ended with
// the broker away begins one, whatever was confirmed before.
func (r *relayRun) noteAvailability(outcomes []EventOutcome, unavailable error) {
	if unavailable != nil {
		pause, isNew := r.outage.begin()
		r.stats.pauses.Add(1)
		if isNew {
			r.log.Warn("the broker is unavailable; pausing", "pause", pause, "error", unavailable)
		}
		return
	}
	for _, o := range outcomes {
		// Any answer but an unknown one shows that the broker is back.
		if o.Kind != OutcomeUnknown {
			if r.outage.end() {
				r.log.Info("the broker is available again")
			}
			return
		}
	}
}

func releaseAll(events []Event) []EventOutcome {
	outcomes := make([]EventOutcome, len(events))
	for i, e := range events {
		outcomes[i] = EventOutcome{Key: e.Key, Kind: OutcomeReleased}
	}
	return outcomes
}
