// Package broker lets the example run on each of the brokers: the scheme of a URL
// chooses. A service that has settled on one needs no such package: it calls that
// one's functions as the files here do.
package broker

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Broker is a connection to a broker.
type Broker interface {
	// Ensure creates the streams, queues or topics of events.yaml that are
	// missing, and fails when one is there with other settings.
	Ensure(ctx context.Context) error

	// Publisher is for a relay. Call it once.
	Publisher() (outbox.Publisher, error)

	// Subscribe runs a consumer until ctx ends. stats may be nil.
	Subscribe(ctx context.Context, h outbox.Handler, stats *outbox.SubscribeStats) error

	// Close ends the connection, after the publisher and the subscriptions.
	Close()
}

// Open connects to the broker of a URL: nats://host:port, amqp://user:password@host:port/vhost, or
// kafka://host:port,host:port.
func Open(rawURL string) (Broker, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("ORDERS_BROKER_URL is not a URL") // which may hold a password
	}
	switch u.Scheme {
	case "nats", "tls":
		return openNATS(rawURL)
	case "amqp", "amqps":
		return openRabbitMQ(rawURL)
	case "kafka":
		return openKafka(u.Host)
	default:
		return nil, fmt.Errorf("ORDERS_BROKER_URL has the scheme %q: want nats, amqp or kafka", u.Scheme)
	}
}
