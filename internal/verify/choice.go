package verify

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/internal/record"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// choice is what an experiment's seed chooses.
type choice struct {
	requests  []request
	relays    int
	consumers int
	nth       int           // time that the victim passes the point at which it happens
	early     bool          // the others are there before it happens
	long      bool          // a delay outlasts leases and the broker's patience
	wait      time.Duration // between two steps of a fault: up to half a second
	pace      time.Duration // between two requests
	variant   int           // which of several ways
	order     int64         // of the first request
}

// needsCompany are injections that take a relay to lose a lease to.
func (e Experiment) needsCompany() bool {
	return e.Injection == record.ExpiredLease || e.Point == fault.RelayOverdue && e.Outcome == record.OutcomeStop
}

func (e Experiment) choose() choice {
	rng := rand.New(rand.NewPCG(e.Seed, 0))
	c := choice{
		relays: 1 + rng.IntN(3), consumers: 1 + rng.IntN(2), early: rng.IntN(3) == 0, long: rng.IntN(2) == 0,
		wait: time.Duration(rng.IntN(500)) * time.Millisecond, variant: rng.IntN(1000), order: 1 + rng.Int64N(1<<40), nth: 1,
	}
	if e.needsCompany() {
		c.relays = max(c.relays, 2)
	}
	events := 5 + rng.IntN(16)
	canary := fmt.Sprintf("canary-%d", e.Seed)
	for order := c.order; len(c.requests) < events; order++ {
		c.requests = append(c.requests, newRequest(order, 1, canary))
		if rng.IntN(3) == 0 {
			c.requests = append(c.requests, newRequest(order, 2, canary))
		}
	}
	refused := newRequest(c.order-1, 1, canary)
	refused.Refused = true
	c.requests = append(c.requests, refused)
	switch {
	case e.Point == fault.RelayPublish || e.Point == fault.RelaySent:
		// The second publish: a client may connect at its first. There has to be one.
		c.nth, c.pace = 2, 50*time.Millisecond
	case e.role() == roleWriter:
		c.nth = 1 + rng.IntN(events)
	case e.role() == roleConsumer && !c.early && e.Broker != "kafka":
		c.nth = 1 + rng.IntN(3)
	}
	return c
}

func newRequest(order, version int64, canary string) request {
	return request{
		ID: "request-" + strconv.FormatInt(order, 10) + "-" + strconv.FormatInt(version, 10), EventID: outbox.NewEventID(),
		Order: order, Version: version, Note: canary,
	}
}

// canaries are the private values.
func (c choice) canary() string { return c.requests[0].Note }
