package natsjs

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// SubscribeConfig has a subscription's settings.
type SubscribeConfig struct {
	// Stream to read from. Required. Subscribe doesn't create it.
	Stream string

	// SubjectPrefix is the publisher's: the subjects read are this, a dot, and each
	// of the handler's event types. Required unless Subjects is set.
	SubjectPrefix string

	// Subjects are the subjects to read, wildcards allowed, instead of those made
	// from SubjectPrefix. Defaults to nil.
	Subjects []string

	// Concurrency is how many messages are handled at a time. Defaults to 1.
	Concurrency int

	// MaxAckPending is how many messages may be delivered and not yet
	// acknowledged, over all processes that share the consumer. With 1 a message
	// that fails holds up all those behind it until it succeeds, and so events
	// are applied in the order of the stream, in however many processes; with
	// more, others go past it. Defaults to 1 when Concurrency is 1, otherwise to
	// 1000. It counts when the durable consumer is created.
	MaxAckPending int

	// AckWait is after how long without a sign of life the server delivers a
	// message again. A handler may take longer: as long as it runs, the server
	// is told so every third of AckWait. Defaults to 30 s. It counts when
	// the durable consumer is created; afterwards the consumer's own is used.
	AckWait time.Duration

	// AckTimeout is how long to wait for the server's answer to an
	// acknowledgement. Defaults to 5 s.
	AckTimeout time.Duration

	// Backoff is the delay before a message that failed is delivered again,
	// doubled with every delivery and varied by a fifth. Defaults to 1 s.
	Backoff time.Duration

	// MaxBackoff is where Backoff stops growing, and the delay of a message that
	// isn't an event. Defaults to 30 s.
	MaxBackoff time.Duration

	// ShutdownTimeout is how long handlers that are running when ctx ends may go
	// on before their context is cancelled. Defaults to 20 s.
	ShutdownTimeout time.Duration

	// Logger gets what goes wrong: event ids, types, sequence numbers and the
	// handlers' errors, never a payload or a header's value. Defaults to
	// slog.Default().
	Logger *slog.Logger

	// Stats, when set, is counted up.
	Stats *SubscribeStats
}

// SubscribeStats counts what a subscription did. Read it at any time.
type SubscribeStats struct {
	Delivered   atomic.Int64 // messages received, repeats among them
	Redelivered atomic.Int64 // those that the server had delivered before
	Acked       atomic.Int64 // acknowledgements that the server confirmed
	AckFailed   atomic.Int64 // acknowledgements that it didn't; the message comes again
	Naked       atomic.Int64 // given back for another delivery
	NotEvents   atomic.Int64 // of those: messages that aren't events
	Panics      atomic.Int64 // of those: handlers that panicked
}

func (c SubscribeConfig) withDefaults() SubscribeConfig {
	if c.Concurrency == 0 {
		c.Concurrency = 1
	}
	if c.MaxAckPending == 0 {
		c.MaxAckPending = 1
		if c.Concurrency > 1 {
			c.MaxAckPending = max(1000, c.Concurrency)
		}
	}
	defaultTo(&c.AckWait, 30*time.Second)
	defaultTo(&c.AckTimeout, 5*time.Second)
	defaultTo(&c.Backoff, time.Second)
	defaultTo(&c.MaxBackoff, 30*time.Second)
	defaultTo(&c.ShutdownTimeout, 20*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Stats == nil {
		c.Stats = new(SubscribeStats)
	}
	return c
}

func defaultTo(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

func (c SubscribeConfig) validate() error {
	switch {
	case c.Stream == "":
		return errors.New("natsjs: SubscribeConfig.Stream is required")
	case c.SubjectPrefix == "" && len(c.Subjects) == 0:
		return errors.New("natsjs: SubscribeConfig needs SubjectPrefix, the publisher's, or Subjects")
	case c.SubjectPrefix != "" && len(c.Subjects) > 0:
		return errors.New("natsjs: SubscribeConfig.SubjectPrefix and Subjects exclude each other")
	case min(c.AckWait, c.AckTimeout, c.Backoff, c.MaxBackoff, c.ShutdownTimeout) < 0,
		min(c.Concurrency, c.MaxAckPending) < 0:
		return errors.New("natsjs: SubscribeConfig has a negative setting")
	}
	if c.SubjectPrefix != "" {
		if err := checkSubject(c.SubjectPrefix); err != nil {
			return fmt.Errorf("natsjs: SubscribeConfig.SubjectPrefix: %w", err)
		}
	}
	return nil
}
