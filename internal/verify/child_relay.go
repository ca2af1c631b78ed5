package verify

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func (c *child) relay(ctx context.Context, db *outbox.DB) error {
	carrier, err := c.Place.open()
	if err != nil {
		return err
	}
	defer carrier.close()
	publisher, err := carrier.publisher()
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(orderevents.NewStore(db), toldPublisher{publisher, c}, &outbox.RelayConfig{
		Lease: lease, PublishTimeout: publishTimeout, PollInterval: 100 * time.Millisecond,
		RetryBackoff: 100 * time.Millisecond, RetryBackoffMax: retryMax,
		OutageBackoff: 50 * time.Millisecond, OutageBackoffMax: outageMax,
		Logger: c.log, Observer: &outbox.Observer{Settled: c.settled, StoreFailed: c.storeFailed},
	})
	if err != nil {
		return err
	}
	c.tell(line{Kind: lineReady})
	return relay.Run(ctx)
}

// settled tells of marks that were refused.
func (c *child) settled(s outbox.Settled) {
	var lost []uuid.UUID
	for _, key := range s.Lost {
		if id, err := uuid.Parse(key); err == nil {
			lost = append(lost, id)
		}
	}
	if len(lost) > 0 {
		c.tell(line{Kind: lineLost, Events: lost})
	}
}

// storeFailed tells of marks that may come too late.
func (c *child) storeFailed(f outbox.StoreFailed) {
	if f.Call == "settle" || f.Call == "renew" {
		c.tell(line{Kind: lineTrouble})
	}
}

// toldPublisher tells what it is given, and what the broker's publisher says of it.
type toldPublisher struct {
	outbox.Publisher
	child *child
}

func (p toldPublisher) Publish(ctx context.Context, messages []outbox.Envelope) []error {
	n := p.child.number()
	handed := line{Kind: lineHanded, N: n}
	for _, m := range messages {
		handed.Events = append(handed.Events, m.ID)
	}
	p.child.tell(handed)
	results := p.Publisher.Publish(ctx, messages)
	answered := line{Kind: lineAnswered, N: n}
	for _, err := range results {
		result := confirmed
		if err != nil {
			result = outbox.FailureKindOf(err).String()
		}
		answered.Results = append(answered.Results, result)
	}
	p.child.tell(answered)
	return results
}

// confirmed is the answer that is no failure.
const confirmed = "confirmed"
