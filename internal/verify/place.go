package verify

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Brokers are what an experiment can publish to.
func Brokers() []string { return []string{"nats", "rabbitmq", "kafka"} }

// consumerName is the consumer of the experiments: it handles every event of the example.
const consumerName = orderevents.ConsumerNameNotificationPlanner

// place is where an experiment's events are at a broker: nobody else's names.
type place struct {
	Broker string
	Addr   string // host:port, of the broker or of a proxy in front of it
	Name   string // of the stream, exchange or topic, and part of all other names
}

// via is the same place through a proxy.
func (p place) via(addr string) place {
	p.Addr = addr
	return p
}

// topology is that of events.yaml under the place's names, with one consumer.
func (p place) topology() outbox.Topology {
	t := orderevents.Topology()
	for i := range t.Events {
		e := &t.Events[i]
		e.Stream, e.Exchange, e.Topic, e.Key = p.Name, p.Name, p.Name, p.Name+"."+e.Type
	}
	t.Consumers = slices.DeleteFunc(t.Consumers, func(c outbox.ConsumerTopology) bool { return c.Name != consumerName })
	c := &t.Consumers[0]
	c.Queue, c.Group = p.Name+"."+c.Queue, p.Name+"."+c.Group
	return t
}

// carrier is a child's connection to the broker.
type carrier interface {
	publisher() (outbox.Publisher, error)
	subscribe(ctx context.Context, h outbox.Handler, log *slog.Logger) error
	close()
}

func (p place) open() (carrier, error) {
	switch p.Broker {
	case "nats":
		return openNATS(p)
	case "rabbitmq":
		return openRabbit(p), nil
	case "kafka":
		return openKafka(p), nil
	default:
		return nil, fmt.Errorf("no such broker as %q", p.Broker)
	}
}
