package watermill

import (
	"errors"
	"fmt"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// PublisherConfig has a publisher's settings.
type PublisherConfig struct {
	// Synchronous states that the wrapped publisher's Publish returns nil only after
	// its broker has confirmed the message, at the level that you want. Required:
	// nothing in Watermill tells, and with a publisher that returns earlier events
	// get lost. Where that is a setting, as on AMQP, Kafka and NATS, it has to be
	// set; docs/brokers/watermill.md says which.
	Synchronous bool

	// Topology has the topic of each event type: the usual way. Required unless
	// Topic is set. An event of a type that it doesn't have is [ErrNoTopic].
	Topology outbox.Topology

	// Topic returns the topic of an event type, without a Topology. An empty one is
	// [ErrNoTopic].
	Topic func(eventType string) string

	// Classify says what an error of the wrapped publisher means. It may say
	// failed, unavailable or rejected only of errors after which the broker
	// certainly has no message, late or not. Defaults to [outbox.FailureKindOf]:
	// unknown, unless the error is an [outbox.PublishError].
	Classify func(error) outbox.FailureKind

	// AckTimeout is how long each message may take; after that its outcome is
	// unknown. Its context ends then, which not every publisher heeds: a call that goes
	// on all the same keeps its place of MaxInFlight. Defaults to 5 s.
	AckTimeout time.Duration

	// MaxInFlight is how many messages may be in the wrapped publisher's hands at a
	// time, over all calls of Publish. Each is a call and a goroutine. Defaults to 64.
	MaxInFlight int

	// Unordered lets events of one aggregate be on their way together. By default
	// an event is sent when the one before it, of the same aggregate in the same
	// call, is confirmed, and is held back when that one failed. Set it where the
	// outbox isn't ordered.
	Unordered bool
}

// ErrNotSynchronous is returned by [NewPublisher] when nobody has stated that the wrapped
// publisher waits for its broker.
var ErrNotSynchronous = errors.New("watermill: PublisherConfig.Synchronous isn't set: state that the publisher returns nil only after its broker's confirm")

func (c PublisherConfig) validate() error {
	if !c.Synchronous {
		return ErrNotSynchronous
	}
	if err := checkTopics(c.Topology, c.Topic); err != nil {
		return fmt.Errorf("watermill: PublisherConfig: %w", err)
	}
	if c.AckTimeout < 0 || c.MaxInFlight < 0 {
		return errors.New("watermill: PublisherConfig.AckTimeout and MaxInFlight can't be negative")
	}
	return nil
}

func (c PublisherConfig) withDefaults() PublisherConfig {
	defaultTo(&c.AckTimeout, 5*time.Second)
	defaultTo(&c.MaxInFlight, 64)
	if c.Classify == nil {
		c.Classify = outbox.FailureKindOf
	}
	return c
}

func defaultTo[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}
