package verify

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/history"
)

// brokerServer is a throwaway broker, as its parent sees it.
type brokerServer interface {
	addr() string
	version() string

	// ensure makes a place's streams, queues or topics.
	ensure(ctx context.Context, p place) error

	// messages are all that the place was given, in the broker's order; of those that share a
	// key, where it has several queues or partitions.
	messages(ctx context.Context, p place) ([]history.Message, error)

	// idle reports whether nothing waits for the consumer or, where the broker tells, for its
	// acknowledgement.
	idle(ctx context.Context, p place) (bool, error)

	remove(ctx context.Context, p place) error

	// kill ends it as kill -9 does; restart starts it on the same data and port.
	kill() error
	restart(ctx context.Context) error

	close()
}

var errImmortal = errors.New("this broker is a library in our own process: it can't be killed")

func startBroker(ctx context.Context, name string, progress func(string)) (brokerServer, error) {
	switch name {
	case "nats":
		return startNATS(ctx)
	case "rabbitmq":
		return startRabbit(ctx, progress)
	case "kafka":
		return startKafka()
	default:
		return nil, fmt.Errorf("no such broker as %q", name)
	}
}

// newMessage reads a message's CloudEvents attributes.
func newMessage(attribute func(name string) string, payload []byte) (history.Message, error) {
	id, err := uuid.Parse(attribute("id"))
	if err != nil {
		return history.Message{}, fmt.Errorf("the broker has a message without an event id: %w", err)
	}
	version, err := strconv.ParseInt(attribute("aggregateversion"), 10, 64)
	if err != nil {
		return history.Message{}, fmt.Errorf("message %s: %w", id, err)
	}
	return history.Message{
		EventID: id, Aggregate: aggregate(attribute("aggregatetype"), attribute("subject")), Version: version, Payload: payload,
	}, nil
}
