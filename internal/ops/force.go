package ops

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
)

// ForcePlan is what a forced delivery would do: hand events to a consumer that is done with them.
type ForcePlan struct {
	Consumer string        `json:"consumer"`
	Events   []ForcedEvent `json:"events"`

	seen map[uuid.UUID]DedupRow
}

// ForcedEvent is an event that is to be handled again.
type ForcedEvent struct {
	EventID uuid.UUID   `json:"event_id"`
	Was     Consumption `json:"was"`
}

// PlanForce looks at what a consumer has made of events.
func (s *Service) PlanForce(ctx context.Context, consumer string, ids []uuid.UUID) (ForcePlan, error) {
	plan := ForcePlan{Consumer: consumer, Events: []ForcedEvent{}, seen: map[uuid.UUID]DedupRow{}}
	if s.consumer(consumer) == nil {
		return plan, s.noConsumer(consumer)
	}
	if len(ids) == 0 {
		return plan, errors.New("a forced delivery takes event ids, no conditions")
	}
	for chunk := range slices.Chunk(ids, 500) {
		err := s.readDedup(ctx, s.inbox(consumer), consumer, texts(chunk), func(id string, row DedupRow) {
			if event, err := uuid.Parse(id); err == nil {
				plan.seen[event] = row
			}
		})
		if err != nil {
			return plan, err
		}
	}
	for _, id := range ids {
		was, err := s.Consumed(ctx, consumer, id)
		if err != nil {
			return plan, err
		}
		plan.Events = append(plan.Events, ForcedEvent{id, was})
	}
	return plan, nil
}

// Force makes the deliveries of a plan anew, past the broker: the handler runs again, and
// its effect happens a second time. Of two people with the same plan one has an event delivered.
func (s *Service) Force(ctx context.Context, plan ForcePlan, reason string, pace Pace) ([]Result, error) {
	ids := make([]uuid.UUID, len(plan.Events))
	for i, e := range plan.Events {
		ids[i] = e.EventID
	}
	return s.redeliver(ctx, plan.Consumer, ids, redeliverOptions{
		pace: pace, operation: opParkedForce, reason: reason, force: true, seen: plan.seen,
	})
}
