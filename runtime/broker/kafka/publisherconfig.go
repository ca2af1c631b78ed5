package kafka

import (
	"errors"
	"fmt"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// PublisherConfig has a publisher's settings.
type PublisherConfig struct {
	// Topology has the topic of each event type. Required unless Topic is set. An
	// event that it doesn't know fails, and is tried again by the relay: a newer
	// writer may be ahead of this process.
	Topology outbox.Topology

	// Topic returns the topic of an event, instead of Topology. Defaults to nil.
	Topic func(outbox.Envelope) string

	// AckTimeout is how long each message may wait for its acknowledgement;
	// after that its outcome is unknown, and the client is discarded with all that
	// it has in flight, so that nothing is sent later. At least 100 ms. Defaults to 5 s.
	AckTimeout time.Duration

	// MaxMessageBytes is the largest batch of records, and so the largest record,
	// that is sent; larger ones are rejected. It should be the topics'
	// max.message.bytes. Defaults to that setting's own default, 1,048,588.
	MaxMessageBytes int32

	// Unordered lets events of one aggregate be on their way together. By default
	// an event is sent when the one before it, of the same aggregate in the same
	// call, is confirmed, and is held back when that one failed: otherwise a
	// failed event is overtaken by its followers, for it is published again
	// later. Set it where the outbox isn't ordered; it is faster when a
	// few aggregates have most of the events.
	Unordered bool
}

func (c PublisherConfig) withDefaults() PublisherConfig {
	if c.AckTimeout == 0 {
		c.AckTimeout = 5 * time.Second
	}
	if c.MaxMessageBytes == 0 {
		c.MaxMessageBytes = 1_048_588
	}
	return c
}

func (c PublisherConfig) validate() error {
	switch {
	case c.Topic == nil && len(c.Topology.Events) == 0:
		return errors.New("kafka: PublisherConfig needs Topology, or Topic")
	case c.Topic != nil && len(c.Topology.Events) > 0:
		return errors.New("kafka: PublisherConfig.Topology and Topic exclude each other")
	case c.AckTimeout < minAckTimeout:
		return fmt.Errorf("kafka: PublisherConfig.AckTimeout is %v, want at least %v", c.AckTimeout, minAckTimeout)
	case c.MaxMessageBytes < 0:
		return errors.New("kafka: PublisherConfig.MaxMessageBytes can't be negative")
	}
	for _, e := range c.Topology.Events {
		if err := checkTopic(e.Topic); err != nil {
			return fmt.Errorf("kafka: event %s: %w", e.Type, err)
		}
	}
	return nil
}

// minAckTimeout is franz-go's lower limit of a produce request's timeout.
const minAckTimeout = 100 * time.Millisecond

func (c PublisherConfig) topicOf(e outbox.Envelope) (string, error) {
	if c.Topic == nil {
		place, ok := c.Topology.Event(e.Type)
		if !ok {
			return "", fmt.Errorf("the topology has no topic for event type %q", shorten(e.Type))
		}
		return place.Topic, nil
	}
	topic := c.Topic(e)
	return topic, checkTopic(topic)
}
