package natsjs

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// SubscribeConfig has a subscription's settings.
type SubscribeConfig struct {
	// Topology says where the handler's events are, and the name of its durable
	// consumer: the usual way. If they lie in several streams, each has a durable
	// consumer of that name. Required unless Stream is set.
	Topology outbox.Topology

	// Stream to read from, without a Topology. Subscribe doesn't create it.
	Stream string

	// SubjectPrefix goes with Stream and is the publisher's: the subjects read are
	// this, a dot, and each of the handler's event types. Required with Stream
	// unless Subjects is set.
	SubjectPrefix string

	// Subjects go with Stream: the subjects to read, wildcards allowed, instead of
	// those made from SubjectPrefix. Defaults to nil.
	Subjects []string

	// Concurrency is how many messages are handled at a time; of one aggregate
	// never two. Defaults to that of the handler's Limits, or else 1.
	Concurrency int

	// Prefetch is how many messages this subscription holds at a time, those that
	// wait for their aggregate or for the database among them, of each stream.
	// When an aggregate's events fill it, no other aggregate has room. Defaults to
	// 256, or four times Concurrency if that is more.
	Prefetch int

	// MaxAckPending is how many messages may be delivered and not yet
	// acknowledged, over all processes that share the consumer; one that failed
	// counts until it succeeds. With 1 a message that fails holds up all those
	// behind it, and so events are applied in the order of the stream, in however
	// many processes; with more, those of other aggregates go on. Defaults to
	// 1000. It counts when the durable consumer is created.
	MaxAckPending int

	// AckWait is after how long without a sign of life the server delivers a
	// message again. A handler may take longer: the server is told every third of
	// AckWait of all messages that this process holds. It should be longer than
	// the handler's timeout all the same. Defaults to 30 s. It counts when the
	// durable consumer is created; afterwards the consumer's own is used.
	AckWait time.Duration

	// AckTimeout is how long to wait for the server's answer to an
	// acknowledgement. Defaults to 5 s.
	AckTimeout time.Duration

	// Backoff is the delay before a message that failed is delivered again, when
	// the handler's error has none; doubled with every delivery and varied by a
	// fifth. Defaults to 1 s.
	Backoff time.Duration

	// MaxBackoff is where Backoff stops growing. Defaults to 30 s.
	MaxBackoff time.Duration

	// ShutdownTimeout is how long handlers that are running when ctx ends may go
	// on before their context is cancelled. Defaults to 20 s.
	ShutdownTimeout time.Duration

	// Logger gets what goes wrong: event ids, types, sequence numbers and the
	// handlers' errors, never a payload or a header's value. Defaults to
	// slog.Default().
	Logger *slog.Logger

	// Stats, when set, is counted up.
	Stats *outbox.SubscribeStats
}

// The defaults that Ensure has, too.
const (
	defaultAckWait       = 30 * time.Second
	defaultMaxAckPending = 1000
	defaultPrefetch      = 256
)

func (c SubscribeConfig) withDefaults(limits outbox.Limits) SubscribeConfig {
	defaultTo(&c.Concurrency, max(limits.Concurrency, 1))
	defaultTo(&c.MaxAckPending, defaultMaxAckPending)
	defaultTo(&c.Prefetch, max(defaultPrefetch, 4*c.Concurrency))
	defaultTo(&c.AckWait, defaultAckWait)
	defaultTo(&c.AckTimeout, 5*time.Second)
	defaultTo(&c.Backoff, time.Second)
	defaultTo(&c.MaxBackoff, 30*time.Second)
	defaultTo(&c.ShutdownTimeout, 20*time.Second)
	defaultTo(&c.Logger, slog.Default())
	defaultTo(&c.Stats, new(outbox.SubscribeStats))
	return c
}

func defaultTo[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

func (c SubscribeConfig) validate() error {
	switch {
	case len(c.Topology.Events) > 0:
		if c.Stream != "" || c.SubjectPrefix != "" || len(c.Subjects) > 0 {
			return errors.New("natsjs: SubscribeConfig.Topology excludes Stream, SubjectPrefix and Subjects")
		}
	case c.Stream == "":
		return errors.New("natsjs: SubscribeConfig needs Topology or Stream")
	case c.SubjectPrefix == "" && len(c.Subjects) == 0:
		return errors.New("natsjs: SubscribeConfig needs SubjectPrefix, the publisher's, or Subjects")
	case c.SubjectPrefix != "" && len(c.Subjects) > 0:
		return errors.New("natsjs: SubscribeConfig.SubjectPrefix and Subjects exclude each other")
	}
	if min(c.AckWait, c.AckTimeout, c.Backoff, c.MaxBackoff, c.ShutdownTimeout) < 0 ||
		min(c.Concurrency, c.MaxAckPending, c.Prefetch) < 0 {
		return errors.New("natsjs: SubscribeConfig has a negative setting")
	}
	if c.SubjectPrefix != "" {
		if err := checkSubject(c.SubjectPrefix); err != nil {
			return fmt.Errorf("natsjs: SubscribeConfig.SubjectPrefix: %w", err)
		}
	}
	return nil
}
