// Package brokers starts throwaway brokers by name: for the bench, and to try things
// by hand.
package brokers

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outboxgen/outboxgen/internal/natsserver"
	"github.com/outboxgen/outboxgen/internal/rabbitserver"
)

// Server is a running broker. Close it.
type Server struct {
	URL   string // as example/broker takes it
	What  string // for people
	Close func()
}

// Names are what Start knows, sorted.
func Names() []string { return []string{"kafka", "nats", "rabbitmq"} }

// Start starts a broker. progress gets a line for each slow step; it may be nil.
func Start(ctx context.Context, name string, progress func(string)) (*Server, error) {
	switch name {
	case "nats":
		s, err := natsserver.Start(natsserver.Config{})
		if err != nil {
			return nil, err
		}
		return &Server{URL: s.URL(), What: "NATS JetStream", Close: s.Close}, nil
	case "rabbitmq":
		s, err := rabbitserver.Start(ctx, rabbitserver.Config{Progress: progress})
		if err != nil {
			return nil, err
		}
		return &Server{URL: s.URL(), What: "RabbitMQ", Close: s.Close}, nil
	case "kafka":
		c, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			return nil, fmt.Errorf("start a Kafka broker: %w", err)
		}
		return &Server{
			URL:  "kafka://" + strings.Join(c.ListenAddrs(), ","),
			What: "franz-go's Kafka broker, in memory", Close: c.Close,
		}, nil
	default:
		return nil, fmt.Errorf("no such broker as %q: want one of %s", name, strings.Join(Names(), ", "))
	}
}
