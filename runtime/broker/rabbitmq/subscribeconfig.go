package rabbitmq

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// SubscribeConfig has a subscription's settings.
type SubscribeConfig struct {
	// Topology says which queue the consumer reads. Required unless Queue is set.
	Topology outbox.Topology

	// Queue to read, without a topology. Defaults to "", none.
	Queue string

	// Concurrency is how many messages are handled at a time, those of one aggregate
	// one after the other. Defaults to the handler's own, or 1.
	Concurrency int

	// Prefetch is how many messages the broker hands over before one is acknowledged.
	// After a crash as many are delivered again. At most 65,535, AMQP's limit. Defaults to
	// four times Concurrency, at least 32.
	Prefetch int

	// RetryDelays are the waits that a message can have that failed: the broker has a
	// queue for each, which [Ensure] makes with the same setting. A wait is
	// rounded down to one of them, or up to the first. Defaults to 1 s, 5 s, 30 s,
	// 2 min and 5 min.
	RetryDelays []time.Duration

	// Backoff is the wait before a message is delivered again whose handler doesn't say,
	// doubled with every delivery, varied by a fifth. Also the pause before a lost
	// connection is opened anew, and before a message that couldn't be put into its
	// queue to wait is tried again. Defaults to 1 s.
	Backoff time.Duration

	// MaxBackoff is where Backoff stops growing. Defaults to 30 s.
	MaxBackoff time.Duration

	// ConfirmTimeout is how long the broker may take to confirm that a message waits.
	// Defaults to 5 s.
	ConfirmTimeout time.Duration

	// ConsumerTimeout is the broker's consumer_timeout, after which it takes back a message
	// that isn't acknowledged, with all others of the channel. A handler with a
	// longer time limit is refused. Defaults to 30 min, as the broker's does.
	ConsumerTimeout time.Duration

	// ShutdownTimeout is how long handlers that are running when ctx ends may go on
	// before their context is cancelled. What has not begun goes back to the queue after
	// them. Defaults to 20 s.
	ShutdownTimeout time.Duration

	// Logger gets what goes wrong: event ids, types, queues and the handlers' errors,
	// never a payload or a header's value. Defaults to slog.Default().
	Logger *slog.Logger

	// Stats, when set, is counted up.
	Stats *outbox.SubscribeStats
}

// maxPrefetch is what basic.qos has room for. The client library would let more wrap round, and 0
// is no limit.
const maxPrefetch = 1<<16 - 1

func (c SubscribeConfig) withDefaults(h outbox.Handler) SubscribeConfig {
	if place, ok := c.Topology.Consumer(h.Name()); ok {
		c.Queue = place.Queue
	}
	defaultTo(&c.Concurrency, h.Limits().Concurrency)
	defaultTo(&c.Concurrency, 1)
	defaultTo(&c.Prefetch, min(max(4*c.Concurrency, 32), maxPrefetch))
	if len(c.RetryDelays) == 0 {
		c.RetryDelays = defaultRetryDelays()
	}
	defaultTo(&c.Backoff, time.Second)
	defaultTo(&c.MaxBackoff, 30*time.Second)
	defaultTo(&c.ConfirmTimeout, 5*time.Second)
	defaultTo(&c.ConsumerTimeout, 30*time.Minute)
	defaultTo(&c.ShutdownTimeout, 20*time.Second)
	defaultTo(&c.Logger, slog.Default())
	if c.Stats == nil {
		c.Stats = new(outbox.SubscribeStats)
	}
	return c
}

func (c SubscribeConfig) validate(h outbox.Handler) error {
	switch {
	case h.Name() == "" || len(h.EventTypes()) == 0:
		return errors.New("rabbitmq: the handler has no name or handles no event type")
	case c.Queue != "" && len(c.Topology.Consumers) > 0:
		return errors.New("rabbitmq: SubscribeConfig.Topology and Queue exclude each other")
	case min(c.Backoff, c.MaxBackoff, c.ConfirmTimeout, c.ConsumerTimeout, c.ShutdownTimeout) < 0, min(c.Concurrency, c.Prefetch) < 0:
		return errors.New("rabbitmq: SubscribeConfig has a negative setting")
	}
	if err := checkRetryDelays(c.RetryDelays); err != nil {
		return err
	}
	c = c.withDefaults(h)
	switch {
	case c.Queue == "":
		return fmt.Errorf("rabbitmq: SubscribeConfig needs Topology, with a queue for consumer %s, or Queue", h.Name())
	case c.Prefetch > maxPrefetch || c.Concurrency > maxPrefetch:
		return fmt.Errorf("rabbitmq: SubscribeConfig.Prefetch and Concurrency are at most %d", maxPrefetch)
	case c.Prefetch < c.Concurrency:
		return errors.New("rabbitmq: SubscribeConfig.Prefetch is below Concurrency")
	case h.Limits().Timeout >= c.ConsumerTimeout:
		return fmt.Errorf("rabbitmq: consumer %s: its handler may take %v, and the broker takes a message back after %v: shorten the one, or raise the other (consumer_timeout) and SubscribeConfig.ConsumerTimeout",
			h.Name(), h.Limits().Timeout, c.ConsumerTimeout)
	}
	return nil
}
