package natsjs

import (
	"errors"
	"fmt"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// PublisherConfig has a publisher's settings.
type PublisherConfig struct {
	// Topology has the stream and the subject of each event type: the usual way.
	// Required unless Stream is set. An event of a type that it doesn't have is
	// [ErrNoPlace].
	Topology outbox.Topology

	// Stream is the stream that must acknowledge, without a Topology. An
	// acknowledgement from any other one is a failure.
	Stream string

	// SubjectPrefix goes with Stream and comes before the event's type: with
	// "orders", the event order.accepted goes to orders.order.accepted. Defaults to
	// the event's source.
	SubjectPrefix string

	// Subject goes with Stream and returns the subject of an event, instead of
	// SubjectPrefix. Defaults to nil.
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
	defaultTo(&c.AckTimeout, 5*time.Second)
	defaultTo(&c.MaxInFlight, 256)
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
	switch {
	case len(c.Topology.Events) > 0:
		if c.Stream != "" || c.SubjectPrefix != "" || c.Subject != nil {
			return errors.New("natsjs: PublisherConfig.Topology excludes Stream, SubjectPrefix and Subject")
		}
		for _, e := range c.Topology.Events {
			if err := checkPlace(e); err != nil {
				return fmt.Errorf("natsjs: PublisherConfig.Topology: %w", err)
			}
		}
	case c.Stream == "":
		return errors.New("natsjs: PublisherConfig needs Topology or Stream: the stream whose acknowledgement counts")
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

// place returns where an event goes.
func (p *Publisher) place(e outbox.Envelope) (stream, subject string, err error) {
	if p.places == nil {
		return p.cfg.Stream, p.cfg.Subject(e), nil
	}
	place, ok := p.places[e.Type]
	if !ok {
		return "", "", outbox.PublishUnavailable(fmt.Errorf("%w: %q", ErrNoPlace, e.Type))
	}
	return place.Stream, place.Key, nil
}

// placesOf returns a topology's events by type, nil when there is none.
func placesOf(t outbox.Topology) map[string]outbox.EventTopology {
	if len(t.Events) == 0 {
		return nil
	}
	places := make(map[string]outbox.EventTopology, len(t.Events))
	for _, e := range t.Events {
		places[e.Type] = e
	}
	return places
}
