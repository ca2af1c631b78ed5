package main

import (
	"context"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// What a broker that can't be reached, or takes nothing, may show as.
var (
	outageKinds = []outbox.FailureKind{outbox.FailureUnknown, outbox.FailureUnavailable}
	anyUnknown  = cause{"a confirm that did not come", outbox.FailureUnknown, func(error) bool { return true }}
	anyAbsent   = cause{"a broker that is away", outbox.FailureUnavailable, func(error) bool { return true }}
)

// topology is where the events of the example go.
func topology() outbox.Topology { return orderevents.Topology() }

var killed = scenario{
	name: "kill", topology: topology(), script: killAndRestart,
	want: expectation{failures: outageKinds, causes: []cause{anyUnknown, anyAbsent}},
}

var cut = scenario{ // until it is noticed
	name: "cut", topology: topology(), script: cutOften,
	want: expectation{failures: outageKinds, causes: []cause{anyUnknown}},
}

// blink is for Kafka, whose client mends a short cut by itself.
var blink = scenario{
	name: "blink", topology: topology(), script: blinkOften,
	want: expectation{failures: outageKinds},
}

// outstanding returns, when n events were answered, with messages at the broker
// whose confirms the proxy keeps back.
func (r *run) outstanding(ctx context.Context, n int) error {
	if err := r.gate.shut(ctx, n); err != nil {
		return err
	}
	r.proxy.hold()
	r.gate.open()
	return r.proxy.awaitHeld(ctx)
}

// awaitOutage returns when a cause of the scenario was seen and relays have paused for
// it: once, and again after a probe.
func (r *run) awaitOutage(ctx context.Context, c cause) error {
	return r.record.changed.await(ctx, c.name+", and two pauses", func() bool {
		r.record.mu.Lock()
		defer r.record.mu.Unlock()
		return r.record.seen[c.name] > 0 && r.record.pauses >= r.record.pausesBefore+2
	})
}

// killAndRestart kills the broker with confirms outstanding, and starts it again when
// the relays know.
func killAndRestart(ctx context.Context, r *run) error {
	if err := r.outstanding(ctx, r.events/2); err != nil {
		return err
	}
	r.record.breaks()
	if err := r.broker.kill(); err != nil {
		return err
	}
	r.evidence["a server that is down"] = r.proxy.serversDown()
	r.proxy.cut(false)
	if err := r.awaitOutage(ctx, anyAbsent); err != nil {
		return err
	}
	if err := r.broker.restart(ctx); err != nil {
		return err
	}
	r.record.mends()
	return nil
}

// cuts are so many that they are spread over the run.
const cuts = 5

// cutOften cuts the connections with confirms outstanding, again and again, each time
// until a relay doesn't know what became of an event.
func cutOften(ctx context.Context, r *run) error {
	return r.eachCut(ctx, func() error {
		before := r.record.failures(outbox.FailureUnknown)
		r.proxy.cut(true)
		defer r.proxy.up()
		return r.record.changed.await(ctx, "an unknown outcome", func() bool { return r.record.failures(outbox.FailureUnknown) > before })
	})
}

// blinkOften cuts the connections with confirms outstanding, and takes new ones at once.
func blinkOften(ctx context.Context, r *run) error {
	return r.eachCut(ctx, func() error {
		r.proxy.cut(false)
		return nil
	})
}

func (r *run) eachCut(ctx context.Context, cut func() error) error {
	for i := range cuts {
		if err := r.outstanding(ctx, r.events*(i+1)/(cuts+2)); err != nil {
			return err
		}
		r.record.breaks()
		if err := cut(); err != nil {
			return err
		}
		r.evidence["a cut with confirms outstanding"]++
	}
	r.record.mends()
	return nil
}
