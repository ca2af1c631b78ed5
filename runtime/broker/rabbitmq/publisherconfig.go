package rabbitmq

import (
	"errors"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// PublisherConfig has a publisher's settings.
type PublisherConfig struct {
	// Topology says which exchange and routing key each event type has. An event whose
	// type isn't in it fails, and may succeed in a relay that is newer. Required
	// unless Exchange or Route is set.
	Topology outbox.Topology

	// Exchange gets all events, without a topology; an event's type is its routing
	// key. Defaults to "", none.
	Exchange string

	// Route returns an event's exchange and routing key, instead of Topology and
	// Exchange. Defaults to nil.
	Route func(outbox.Envelope) (exchange, key string)

	// AckTimeout is how long each message may wait for its confirm; after that its
	// outcome is unknown. When the broker has confirmed nothing for as long and
	// hasn't said that it is blocked, the connection is opened anew. Defaults to
	// 5 s.
	AckTimeout time.Duration

	// MaxInFlight is how many messages may wait for confirms at a time, over all calls
	// of Publish. Defaults to 256.
	MaxInFlight int

	// Unordered lets events of one aggregate be on their way together. By default an
	// event is sent when the one before it, of the same aggregate in the same
	// call, is confirmed, and is held back when that one failed: otherwise a failed
	// event is overtaken by its followers, for it is published again later. Set it
	// where the outbox isn't ordered; it is faster when a few aggregates have most
	// of the events.
	Unordered bool

	// Backoff is the pause before a connection that failed is tried again, doubled
	// with every failure up to MaxBackoff and varied by a fifth. Until then
	// Publish returns at once. Default to 200 ms and 5 s.
	Backoff, MaxBackoff time.Duration
}

func (c PublisherConfig) withDefaults() PublisherConfig {
	defaultTo(&c.AckTimeout, 5*time.Second)
	defaultTo(&c.MaxInFlight, 256)
	defaultTo(&c.Backoff, 200*time.Millisecond)
	defaultTo(&c.MaxBackoff, 5*time.Second)
	return c
}

func (c PublisherConfig) validate() error {
	ways := 0
	for _, set := range []bool{len(c.Topology.Events) > 0, c.Exchange != "", c.Route != nil} {
		if set {
			ways++
		}
	}
	switch {
	case ways == 0:
		return errors.New("rabbitmq: PublisherConfig needs Topology, or Exchange, or Route")
	case ways > 1:
		return errors.New("rabbitmq: PublisherConfig.Topology, Exchange and Route exclude each other")
	case min(c.AckTimeout, c.Backoff, c.MaxBackoff) < 0, c.MaxInFlight < 0:
		return errors.New("rabbitmq: PublisherConfig has a negative setting")
	}
	for _, e := range c.Topology.Events {
		if err := checkPlace(e.Exchange, e.Key); err != nil {
			return errors.Join(errors.New("rabbitmq: PublisherConfig.Topology: event "+e.Type), err)
		}
	}
	return nil
}

// route returns where an event goes; ok is false for a type that the topology lacks.
func (c PublisherConfig) route(e outbox.Envelope) (exchange, key string, ok bool) {
	switch {
	case c.Route != nil:
		exchange, key = c.Route(e)
		return exchange, key, true
	case c.Exchange != "":
		return c.Exchange, e.Type, true
	}
	place, ok := c.Topology.Event(e.Type)
	return place.Exchange, place.Key, ok
}
