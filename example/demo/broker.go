package main

import (
	"context"
	"maps"
	"slices"

	"github.com/outboxgen/outboxgen/example/broker"
)

// brokerServer is a throwaway broker, as the demo looks into it.
type brokerServer interface {
	// url is what the example's programs connect to.
	url() string

	// describe is a line for the reader.
	describe() string

	// prepare is called before the topology of events.yaml is made.
	prepare(ctx context.Context) error

	// unacked is how many messages wait for a consumer, or, where the broker tells,
	// for its acknowledgement. It may be too high while a consumer begins.
	unacked(ctx context.Context, consumer string) (int, error)

	// messages are all that the broker was given, in its order; of those that share a
	// key, where it has several queues or partitions.
	messages(ctx context.Context) ([]streamMessage, error)

	close()
}

// brokerServers start one, by name.
var brokerServers = map[string]func(ctx context.Context, out *printer) (brokerServer, error){
	"nats":     startNATS,
	"rabbitmq": startRabbitMQ,
	"kafka":    startKafka,
}

func brokerNames() []string { return slices.Sorted(maps.Keys(brokerServers)) }

// startBroker starts a broker and makes the topology of events.yaml there.
func startBroker(ctx context.Context, name string, out *printer) (brokerServer, error) {
	server, err := brokerServers[name](ctx, out)
	if err != nil {
		return nil, err
	}
	if err := prepareBroker(ctx, server); err != nil {
		server.close()
		return nil, err
	}
	return server, nil
}

func prepareBroker(ctx context.Context, server brokerServer) error {
	if err := server.prepare(ctx); err != nil {
		return err
	}
	carrier, err := broker.Open(server.url())
	if err != nil {
		return err
	}
	defer carrier.Close()
	return carrier.Ensure(ctx)
}
