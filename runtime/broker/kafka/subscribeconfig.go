package kafka

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// SubscribeConfig has a subscription's settings.
type SubscribeConfig struct {
	// Topology has the topics of the handler's event types, and its group.
	// Required unless Topics is set.
	Topology outbox.Topology

	// Topics are the topics to read, instead of those of Topology. Defaults to nil.
	Topics []string

	// Group is the consumer group. Its members share the partitions, and it
	// remembers how far they have come. Defaults to the one in Topology, and
	// without one to the handler's name. A group that is new begins with the oldest
	// record.
	Group string

	// Concurrency is how many events are handled at a time, over all partitions that
	// this process has; those of one aggregate never. Defaults to the handler's, and
	// to 1 when it sets none.
	Concurrency int

	// Window is how many records of a partition may be read and not done with. A record
	// that fails waits, with the later ones of its aggregate, while others go past it;
	// when so many wait, their partition does. Defaults to 1000.
	Window int

	// CommitInterval is how often offsets are committed. What was handled since is
	// delivered again after a crash. Defaults to 1 s.
	CommitInterval time.Duration

	// CommitTimeout is how long one commit of offsets may take. Defaults to 5 s.
	CommitTimeout time.Duration

	// Backoff is the wait before a message that failed is handled again, where
	// the handler doesn't say, doubled with every failure and varied by a fifth.
	// Kafka knows no delay of its own, so the message waits here. Defaults to 1 s.
	Backoff time.Duration

	// MaxBackoff is where Backoff stops growing. Defaults to 30 s.
	MaxBackoff time.Duration

	// ShutdownTimeout is how long handlers that are running when ctx ends, or when
	// their partition goes to another member of the group, may go on before
	// their context is cancelled. Defaults to 20 s.
	ShutdownTimeout time.Duration

	// Logger gets what goes wrong: event ids, types, offsets and the
	// handlers' errors, never a payload or a header's value. Defaults to
	// slog.Default().
	Logger *slog.Logger

	// Stats, when set, is counted up.
	Stats *outbox.SubscribeStats
}

func (c SubscribeConfig) withDefaults(h outbox.Handler) SubscribeConfig {
	c.Concurrency = cmp.Or(c.Concurrency, h.Limits().Concurrency, 1)
	c.Window = cmp.Or(c.Window, 1000)
	c.CommitInterval = cmp.Or(c.CommitInterval, time.Second)
	c.CommitTimeout = cmp.Or(c.CommitTimeout, 5*time.Second)
	c.Backoff = cmp.Or(c.Backoff, time.Second)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, 30*time.Second)
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, 20*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Stats == nil {
		c.Stats = new(outbox.SubscribeStats)
	}
	if c.Group == "" {
		c.Group = h.Name()
		if place, ok := c.Topology.Consumer(h.Name()); ok && place.Group != "" {
			c.Group = place.Group
		}
	}
	return c
}

func (c SubscribeConfig) validate(h outbox.Handler) error {
	switch {
	case h.Name() == "" || len(h.EventTypes()) == 0:
		return errors.New("kafka: the handler has no name or handles no event type")
	case len(c.Topics) > 0 && len(c.Topology.Events) > 0:
		return errors.New("kafka: SubscribeConfig.Topology and Topics exclude each other")
	case min(c.Concurrency, c.Window) < 0,
		min(c.CommitInterval, c.CommitTimeout, c.Backoff, c.MaxBackoff, c.ShutdownTimeout) < 0:
		return errors.New("kafka: SubscribeConfig has a negative setting")
	}
	return nil
}

// topics returns the topics to read.
func (c SubscribeConfig) topics(h outbox.Handler) ([]string, error) {
	topics := slices.Clone(c.Topics)
	if len(topics) == 0 {
		for _, t := range h.EventTypes() {
			place, ok := c.Topology.Event(t)
			if !ok {
				return nil, fmt.Errorf("kafka: consumer %s: the topology has no topic for event type %q", h.Name(), t)
			}
			topics = append(topics, place.Topic)
		}
	}
	slices.Sort(topics)
	topics = slices.Compact(topics)
	for _, topic := range topics {
		if err := checkTopic(topic); err != nil {
			return nil, fmt.Errorf("kafka: consumer %s: %w", h.Name(), err)
		}
	}
	return topics, nil
}
