package outboxtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/outboxgen/outboxgen/internal/history"
)

// heal runs a relay and all consumers until everything has come to its end, and ends the
// injection.
func (i *injection) heal(ctx context.Context) error {
	return i.deliver(ctx, func(*consumerActor) {}, func([]*consumerActor) error { return i.settleAndEnd(ctx) })
}

// deliver runs a relay and all consumers, as arm prepares them, while do runs.
func (i *injection) deliver(ctx context.Context, arm func(*consumerActor), do func([]*consumerActor) error) error {
	consumers, err := i.startConsumers(ctx, arm)
	defer func() { stopAll(consumers) }()
	if err != nil {
		return err
	}
	relay, err := i.v.newRelay(ctx, "relay "+i.ID)
	if err != nil {
		return err
	}
	defer relay.stop()
	i.v.forgetRelayError() // of one that was broken
	if err := relay.start(); err != nil {
		return err
	}
	return do(consumers)
}

func (i *injection) startConsumers(ctx context.Context, arm func(*consumerActor)) (started []*consumerActor, err error) {
	for _, c := range i.v.cfg.Consumers {
		a, err := i.v.newConsumer(ctx, c)
		if err != nil {
			return started, err
		}
		started = append(started, a)
		arm(a)
	}
	for _, a := range started {
		a.start()
	}
	return started, nil
}

func stopAll(consumers []*consumerActor) {
	for _, c := range consumers {
		c.cancel()
	}
	for _, c := range consumers {
		c.stop()
	}
}

func (i *injection) settleAndEnd(ctx context.Context) error {
	if err := i.settle(ctx); err != nil {
		return err
	}
	return i.end(ctx)
}

// settle waits until the injection's events are published and handled. When they don't come to
// that, the injection is stuck.
func (i *injection) settle(ctx context.Context) error {
	var done bool
	var failure error
	i.v.await(ctx, func() bool {
		done, failure = i.settled(ctx)
		return done || i.outcome == noFault && i.v.hopeless(i.before)
	})
	switch {
	case failure != nil:
		return failure
	case done && i.v.broker == nil && i.plan.Redelivery:
		i.v.await(ctx, i.absorbed) // nobody knows what such a broker still has to deliver
		return nil
	case done:
		return nil
	}
	i.stuck = true
	i.see("not everything came to its end; waited for %v at most", i.v.cfg.Patience)
	return i.tellStuck(ctx)
}

// absorbed reports whether every consumer has absorbed a repeat of one of the injection's events.
func (i *injection) absorbed() bool {
	missing := slices.Clone(i.v.hist.Consumers)
	i.v.note(func(h *history.History) {
		for _, d := range h.Deliveries {
			if d.Result == "duplicate" && !i.before[d.EventID] {
				missing = slices.DeleteFunc(missing, func(name string) bool { return name == d.Consumer })
			}
		}
	})
	return len(missing) == 0
}

// tellStuck notes what the injection's events wait for.
func (i *injection) tellStuck(ctx context.Context) error {
	v := i.v
	statuses, err := v.statuses(ctx)
	if err != nil {
		return err
	}
	done, err := v.consumerRows(ctx, consumedTable)
	if err != nil {
		return err
	}
	for id, status := range statuses {
		switch {
		case i.before[id]:
		case status == history.StatusPublished:
			for _, name := range v.hist.Consumers {
				at := eventAt{id, name}
				p, ok := v.troubleOf(at)
				if slices.Contains(done, at) {
					ok = v.broker != nil && v.broker.unackedOf(name, id)
					p.text = fmt.Sprintf("consumer %s is done with the event, and it is not acknowledged", name)
					p.hint = "Handle has to return no error when the event was applied before"
				}
				if ok {
					i.problems = append(i.problems, p)
				}
			}
		case status != history.StatusDead:
			i.problems = append(i.problems, problem{
				invariant: "I2", text: "the event is not marked as published: it is " + orGone(status), detail: v.relayTrouble(),
			})
		}
	}
	return nil
}

// orGone is the status of a row, for a reader: empty is that of one that isn't there.
func orGone(status string) string {
	if status == "" {
		return "gone from the outbox"
	}
	return status
}

// settled reports whether the injection's events are published, or dead, and every consumer
// is done with those that are published.
func (i *injection) settled(ctx context.Context) (bool, error) {
	statuses, err := i.v.statuses(ctx)
	if err != nil {
		return false, err
	}
	done, err := i.v.consumerRows(ctx, consumedTable)
	if err != nil {
		return false, err
	}
	for id, status := range statuses {
		if i.before[id] || status == history.StatusDead {
			continue
		}
		if status != history.StatusPublished {
			return false, nil
		}
		for _, name := range i.v.hist.Consumers {
			if !slices.Contains(done, eventAt{id, name}) || i.v.broker != nil && i.v.broker.unackedOf(name, id) {
				return false, nil
			}
		}
	}
	return true, nil
}
