// Package verify runs the example's events through real processes, servers and brokers,
// breaks something at a chosen point, lets everything heal, and has the history of it
// judged. Writers, relays and consumers are children of the process that runs it, which
// are this same program again; see [RunChild].
//
// An experiment is a cell (a point of the runtime and an outcome), a database, a broker and a
// seed, which chooses the rest. The same seed chooses the same again; how processes and servers
// then interleave it can't choose.
package verify

import "time"

// The times of the processes under test: short, so that an experiment that has to wait for one of
// them takes seconds.
const (
	lease          = 2 * time.Second // of a relay
	publishTimeout = 1500 * time.Millisecond
	ackTimeout     = time.Second     // of a published message
	redelivery     = 2 * time.Second // after which a broker gives up a consumer that shows no life
	readTimeout    = 4 * time.Second // of a database connection; half of it is how long it waits for a lock
	outageMax      = 500 * time.Millisecond
	retryMax       = time.Second
)

// The bounds of what the parent waits for.
const (
	startBound = 60 * time.Second
	hitBound   = 30 * time.Second // until a planned fault happens
	// drainBound is until everything is published and handled: more than a Kafka group waits for a
	// member that died while it was being divided (kafka.Subscribe's rebalance timeout, 60 s).
	drainBound = 120 * time.Second
	stopBound  = 30 * time.Second // of a child that was asked to end
)
