package natsjs

import (
	"errors"
	"fmt"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// PublisherConfig has a publisher's settings.
type PublisherConfig struct {
	// Stream is the stream that must acknowledge. Required. An acknowledgement
	// from any other one is a failure.
	Stream string

	// SubjectPrefix comes before the event's type: with "orders", the event
	// order.accepted goes to orders.order.accepted. Defaults to the event's
	// source.
	SubjectPrefix string

	// Subject returns the subject of an event, instead of SubjectPrefix. Defaults
	// to nil.
	Subject func(outbox.Envelope) string

	// AckTimeout is how long each message may wait for its acknowledgement;
	// after that its outcome is unknown. Defaults to 5 s. The JetStream library
	// has no such limit of its own.
	AckTimeout time.Duration

	// MaxInFlight is how many messages may wait for acknowledgement at a time,
	// over all calls of Publish. Defaults to 256.
	MaxInFlight int

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
	if c.MaxInFlight == 0 {
		c.MaxInFlight = 256
	}
	if c.Subject == nil {
		prefix := c.SubjectPrefix
		c.Subject = func(e outbox.Envelope) string {
			if prefix == "" {
				return e.Source + "." + e.Type
			}
			return prefix + "." + e.Type
		}
	}
	return c
}

func (c PublisherConfig) validate() error {
	if c.Stream == "" {
		return errors.New("natsjs: PublisherConfig.Stream is required: it is the stream whose acknowledgement counts")
	}
	if c.AckTimeout < 0 || c.MaxInFlight < 0 {
		return errors.New("natsjs: PublisherConfig.AckTimeout and MaxInFlight can't be negative")
	}
	if c.Subject != nil && c.SubjectPrefix != "" {
		return errors.New("natsjs: PublisherConfig.Subject and SubjectPrefix exclude each other")
	}
	if c.SubjectPrefix != "" {
		if err := checkSubject(c.SubjectPrefix); err != nil {
			return fmt.Errorf("natsjs: PublisherConfig.SubjectPrefix: %w", err)
		}
	}
	return nil
}
