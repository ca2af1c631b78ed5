package main

import (
	"context"
	"maps"
	"slices"

	"github.com/outboxgen/outboxgen/internal/natsserver"
)

// brokerServer is a private broker.
type brokerServer struct {
	url      string
	describe string
	stop     func()
}

// brokerServers start one, by name.
var brokerServers = map[string]func(context.Context) (brokerServer, error){
	"nats": func(context.Context) (brokerServer, error) {
		s, err := natsserver.Start(natsserver.Config{})
		if err != nil {
			return brokerServer{}, err
		}
		return brokerServer{url: s.URL(), describe: "NATS JetStream, in this process", stop: s.Close}, nil
	},
}

func brokerNames() []string { return slices.Sorted(maps.Keys(brokerServers)) }
