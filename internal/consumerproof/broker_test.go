package consumerproof

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

var brokers = []string{"nats", "rabbitmq", "kafka"}

// place is where a test's events are: all that a child process has to know to
// subscribe.
type place struct {
	Broker string
	Addr   string // host:port, of the broker or of a proxy in front of it
	Name   string // of the stream, exchange or topic, and part of all other names
}

var places atomic.Int64

func newPlace(broker, addr string) place {
	return place{Broker: broker, Addr: addr, Name: fmt.Sprintf("proof%d", places.Add(1))}
}

// via is the same place through a proxy.
func (p place) via(addr string) place {
	p.Addr = addr
	return p
}

// topology has order.accepted and the consumer sales-report of events.yaml, under names
// of the place's own.
func (p place) topology() outbox.Topology {
	t := orderevents.Topology()
	t.Events = slices.DeleteFunc(t.Events, func(e outbox.EventTopology) bool {
		return e.Type != orderevents.EventTypeOrderAccepted
	})
	t.Consumers = slices.DeleteFunc(t.Consumers, func(c outbox.ConsumerTopology) bool {
		return c.Name != orderevents.ConsumerNameSalesReport
	})
	e, c := &t.Events[0], &t.Consumers[0]
	e.Stream, e.Exchange, e.Topic, e.Key = p.Name, p.Name, p.Name, p.Name+"."+e.Type
	c.Queue, c.Group = p.Name+"."+c.Queue, p.Name+"."+c.Group
	return t
}

func (p place) queue() string { return p.topology().Consumers[0].Queue }

// settings are a subscription's, the same for each broker.
type settings struct {
	concurrency int
	stats       *outbox.SubscribeStats
	log         *slog.Logger // nil for none
}

func (s settings) logger() *slog.Logger {
	if s.log == nil {
		return quiet()
	}
	return s.log
}

// How soon a broker notices that a consumer has died.
const deathNotice = 2 * time.Second

// retryDelays are the waits that RabbitMQ has queues for.
func retryDelays() []time.Duration {
	return []time.Duration{
		20 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond,
		5 * time.Second, 15 * time.Second,
	}
}

// stored is an event at its broker.
type stored struct {
	partition int32
	offset    int64 // on NATS the sequence
	id        string
}

// rig is a broker with a place of a test's own.
type rig struct {
	place
	publisher outbox.Publisher
	repeats   func()          // returns when a repeat of what was published is no longer dropped
	stored    func() []stored // all events; nil for RabbitMQ, which can't be asked
	protocol  func() tap      // for a proxy in front of it
	waiting   *waitingCopies  // what that has seen of messages that wait; nil where the broker has the delay
}

func newRig(t *testing.T, broker string) *rig {
	t.Helper()
	switch broker {
	case "nats":
		return newNATS(t)
	case "rabbitmq":
		return newRabbit(t)
	default:
		return newKafka(t)
	}
}

// publish publishes in pieces of a relay's size.
func (r *rig) publish(t *testing.T, all []outbox.Envelope) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for piece := range slices.Chunk(all, 500) {
		for i, err := range r.publisher.Publish(ctx, piece) {
			if err != nil {
				t.Fatalf("publish %s: %v", piece[i].ID, err)
			}
		}
	}
}

func (p place) subscribe(ctx context.Context, h outbox.Handler, s settings) error {
	switch p.Broker {
	case "nats":
		return p.subscribeNATS(ctx, h, s)
	case "rabbitmq":
		return p.subscribeRabbit(ctx, h, s)
	default:
		return p.subscribeKafka(ctx, h, s)
	}
}

// dialTo dials an address whatever it is asked to dial.
func dialTo(addr string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}
