package outbox

import (
	"context"
	"errors"
	"slices"
)

var (
	errPublisherPanicked = errors.New("the publisher panicked")
	errEarlierFailed     = errors.New("the publisher panicked, and an earlier message of the aggregate is not published")
	errNoAnswer          = errors.New("the publisher panicked, and then the broker did not answer")
)

// publishSingly publishes one message after the other, after the publisher has
// panicked. If one message is to blame, it alone fails, and is dead in the end; the
// others, of which some may have been sent, are repeated. A publisher that panics
// for every message is broken itself: that is an outage, and no message's fault.
func (r *relayRun) publishSingly(ctx context.Context, b *leasedBatch, messages []Envelope) []error {
	results := make([]error, len(messages))
	if len(messages) == 1 {
		results[0] = PublishFailed(errPublisherPanicked)
		return results
	}
	blocked := map[aggregate]struct{}{}
	for i := range messages {
		key := aggregateOf(&messages[i])
		switch _, isBlocked := blocked[key]; {
		case ctx.Err() != nil || !b.mayPublish(r.cfg.PublishTimeout):
			// A stop waits for one publish at most.
			results[i] = PublishHeldBack(errPublisherPanicked)
		case isBlocked:
			results[i] = PublishHeldBack(errEarlierFailed)
		default:
			results[i] = r.publishMessages(ctx, b, messages[i:i+1])[0]
		}
		if !holdsBack(results[i]) {
			continue
		}
		blocked[key] = struct{}{}
		if kind := FailureKindOf(results[i]); kind == FailureUnavailable || kind == FailureUnknown {
			// Trying the others could take a timeout each.
			for later := i + 1; later < len(results); later++ {
				results[later] = PublishHeldBack(errNoAnswer)
			}
			break
		}
	}
	if !slices.ContainsFunc(results, isAnswer) {
		for i, result := range results {
			if errors.Is(result, errPublisherPanicked) {
				results[i] = PublishUnavailable(errPublisherPanicked)
			}
		}
	}
	return results
}
