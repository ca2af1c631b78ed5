package watermill

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// SubscribeConfig has a subscription's settings.
type SubscribeConfig struct {
	// Topology has the topic of each event type: the usual way. Required unless
	// Topic is set. The consumer group, or what the Pub/Sub calls it, is a setting of
	// the wrapped subscriber, and each handler needs one of its own.
	Topology outbox.Topology

	// Topic returns the topic of an event type, without a Topology.
	Topic func(eventType string) string

	// Concurrency is how many messages are handled at a time; of one aggregate
	// never two. Defaults to that of the handler's Limits, or else 1. Most Pub/Subs
	// hand out a topic's or partition's next message after the last one's
	// acknowledgement, and there it can't be more than one for each.
	Concurrency int

	// Prefetch is how many messages this subscription holds at a time, those that
	// wait among them, if the Pub/Sub hands out so many. Defaults to 256, or four
	// times Concurrency if that is more.
	Prefetch int

	// AckTimeout is how long to wait for a sign that the wrapped subscriber has
	// passed an acknowledgement on: the end of the message's context. After the
	// first that didn't come in time, none is waited for. Defaults to 5 s.
	AckTimeout time.Duration

	// Backoff is the wait before a message that failed is handled again, when the
	// handler's error has none; doubled with every try and varied by a fifth. The
	// message stays here meanwhile. Defaults to 1 s.
	Backoff time.Duration

	// MaxBackoff is where Backoff stops growing. Defaults to 30 s.
	MaxBackoff time.Duration

	// ShutdownTimeout is how long handlers that are running when ctx ends may go
	// on before their context is cancelled. Defaults to 20 s.
	ShutdownTimeout time.Duration

	// Logger gets what goes wrong: event ids, types, topics and the handlers'
	// errors, never a payload or a metadata value. Defaults to slog.Default().
	Logger *slog.Logger

	// Stats, when set, is counted up.
	Stats *outbox.SubscribeStats
}

const defaultPrefetch = 256

func (c SubscribeConfig) validate() error {
	if err := checkTopics(c.Topology, c.Topic); err != nil {
		return fmt.Errorf("watermill: SubscribeConfig: %w", err)
	}
	if min(c.AckTimeout, c.Backoff, c.MaxBackoff, c.ShutdownTimeout) < 0 || min(c.Concurrency, c.Prefetch) < 0 {
		return errors.New("watermill: SubscribeConfig has a negative setting")
	}
	return nil
}

func (c SubscribeConfig) withDefaults(limits outbox.Limits) SubscribeConfig {
	defaultTo(&c.Concurrency, max(limits.Concurrency, 1))
	defaultTo(&c.Prefetch, max(defaultPrefetch, 4*c.Concurrency))
	defaultTo(&c.AckTimeout, 5*time.Second)
	defaultTo(&c.Backoff, time.Second)
	defaultTo(&c.MaxBackoff, 30*time.Second)
	defaultTo(&c.ShutdownTimeout, 20*time.Second)
	defaultTo(&c.Logger, slog.Default())
	defaultTo(&c.Stats, new(outbox.SubscribeStats))
	return c
}
