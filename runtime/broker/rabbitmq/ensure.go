package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// ErrMismatch is in the error of [Ensure] for each thing that is missing at the broker or
// is there with other settings.
var ErrMismatch = errors.New("the broker is not as the topology wants it")

// EnsureConfig has the settings of Ensure.
type EnsureConfig struct {
	// Create makes what is missing. Defaults to false. What is there is never changed.
	Create bool

	// RetryDelays are those of the subscriptions; see [SubscribeConfig].
	RetryDelays []time.Duration

	// SingleActiveConsumer makes queues that hand messages to one process at a time, the
	// next one when that ends: without it the events of an aggregate are applied in
	// their order as long as one process reads the queue. Defaults to false.
	SingleActiveConsumer bool

	// DeliveryLimitByPolicy leaves the argument x-delivery-limit out, for queues that
	// were made by a RabbitMQ before 4.0 and have a policy with delivery-limit -1. Without
	// either, RabbitMQ 4 drops a message that was taken back 20 times. Defaults to
	// false.
	DeliveryLimitByPolicy bool
}

// Report is what Ensure did and could not do.
type Report struct {
	Created []string // exchanges and queues, in the order in which they were made

	// Unverified are bindings that the topology needs. AMQP has no way to ask for one;
	// with Create they are made unless they are there.
	Unverified []string

	// Unhandled are the events that no consumer of the topology handles. Until a queue of
	// another service is bound for such an event, it is rejected as unroutable.
	Unhandled []string
}

// Ensure verifies that the broker has what the topology needs, and with
// [EnsureConfig.Create] makes what is missing: for each exchange of an event a durable
// topic exchange; for each consumer a durable quorum queue, bound by the routing keys of
// the events that it handles, and the queues in which its failed messages wait. What is
// there with other settings is never changed: it is reported, all at once, in an
// error that wraps [ErrMismatch], in the server's words, which name the setting, what
// is wanted ("received") and what is there ("current").
//
// The user needs the permission to configure those exchanges and queues, also without
// Create, for the server compares settings in a declaration only. A queue that is
// deleted in the moment between the look and the comparison is made anew.
//
// Call it before anything is published, and stop the relays when an exchange has to be
// made anew: for a moment it is there and some of its queues are not yet bound. An event
// that is published in that moment is unroutable, or reaches only those that are.
func Ensure(ctx context.Context, c Connector, topology outbox.Topology, cfg EnsureConfig) (Report, error) {
	if err := c.validate(); err != nil {
		return Report{}, err
	}
	if err := checkRetryDelays(cfg.RetryDelays); err != nil {
		return Report{}, err
	}
	if len(cfg.RetryDelays) == 0 {
		cfg.RetryDelays = defaultRetryDelays()
	}
	if err := checkTopology(topology, cfg); err != nil {
		return Report{}, err
	}
	conn, err := c.withDefaults().dial(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("rabbitmq: ensure: %w", err)
	}
	defer conn.end(5 * time.Second)
	defer context.AfterFunc(ctx, conn.cut)()
	if err := checkVersion(conn.version()); err != nil {
		return Report{}, fmt.Errorf("rabbitmq: ensure: %w", err)
	}
	e := &ensuring{conn: conn, cfg: cfg}
	if err := e.all(topology); err != nil {
		return e.report, fmt.Errorf("rabbitmq: ensure: %w", errors.Join(err, ctx.Err()))
	}
	if len(e.differences) > 0 {
		return e.report, fmt.Errorf("rabbitmq: %w:\n%w", ErrMismatch, errors.Join(e.differences...))
	}
	return e.report, nil
}

// checkTopology refuses one that says too little, or has a queue twice.
func checkTopology(t outbox.Topology, cfg EnsureConfig) error {
	var errs []error
	for _, e := range t.Events {
		if err := checkPlace(e.Exchange, e.Key); err != nil {
			errs = append(errs, fmt.Errorf("event %s: %w", e.Type, err))
		}
	}
	longest := retryQueue("", slices.MaxFunc(cfg.RetryDelays, func(a, b time.Duration) int { return len(a.String()) - len(b.String()) }))
	owners := make(map[string]string) // of the queues
	for _, c := range t.Consumers {
		queues := []string{c.Queue}
		for _, delay := range cfg.RetryDelays {
			queues = append(queues, retryQueue(c.Queue, delay))
		}
		for _, queue := range queues {
			if owner, taken := owners[queue]; taken {
				errs = append(errs, fmt.Errorf("consumers %s and %s: each would get a part of queue %s", owner, c.Name, queue))
				break
			}
			owners[queue] = c.Name
		}
		if c.Queue == "" || len(c.Queue)+len(longest) > maxShortString || strings.HasPrefix(c.Queue, "amq.") {
			errs = append(errs, fmt.Errorf("consumer %s: its queue's name wants 1 to %d bytes and no amq. in front", c.Name, maxShortString-len(longest)))
		}
		for _, typ := range c.Events {
			if _, ok := t.Event(typ); !ok {
				errs = append(errs, fmt.Errorf("consumer %s: the topology has no event %s", c.Name, typ))
			}
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("rabbitmq: topology: %w", errors.Join(errs...))
	}
	return nil
}

type ensuring struct {
	conn        *connection
	cfg         EnsureConfig
	report      Report
	differences []error
}

// all returns an error for what ends the work; differences are collected. The queues come
// first and the bindings right behind the exchanges: relays that wait for an exchange
// publish to it as soon as it is there, and what no queue is bound for is dead then.
func (e *ensuring) all(t outbox.Topology) error {
	for _, step := range []func(outbox.Topology) error{e.queues, e.exchanges, e.bindings} {
		if err := step(t); err != nil {
			return err
		}
	}
	return nil
}

func (e *ensuring) queues(t outbox.Topology) error {
	for _, consumer := range t.Consumers {
		if err := e.queue(consumer.Queue, queueArgs(e.conn.version(), e.cfg)); err != nil {
			return err
		}
		for _, delay := range e.cfg.RetryDelays {
			if err := e.queue(retryQueue(consumer.Queue, delay), retryArgs(consumer.Queue, delay)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *ensuring) exchanges(t outbox.Topology) error {
	seen := map[string]bool{"": true} // the default exchange is always there
	for _, event := range t.Events {
		if !slices.ContainsFunc(t.Consumers, func(c outbox.ConsumerTopology) bool { return slices.Contains(c.Events, event.Type) }) {
			e.report.Unhandled = append(e.report.Unhandled, event.Type)
		}
		if seen[event.Exchange] {
			continue
		}
		seen[event.Exchange] = true
		if err := e.exchange(event.Exchange); err != nil {
			return err
		}
	}
	return nil
}

func (e *ensuring) bindings(t outbox.Topology) error {
	for _, consumer := range t.Consumers {
		for _, typ := range consumer.Events {
			event, _ := t.Event(typ) // checked before
			if err := e.bind(consumer.Queue, event); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *ensuring) exchange(name string) error {
	return e.declare("exchange "+name, func(channel *amqp.Channel, passive bool) error {
		if passive {
			return channel.ExchangeDeclarePassive(name, amqp.ExchangeTopic, true, false, false, false, nil)
		}
		return channel.ExchangeDeclare(name, amqp.ExchangeTopic, true, false, false, false, nil)
	})
}

func (e *ensuring) queue(name string, args amqp.Table) error {
	return e.declare("queue "+name, func(channel *amqp.Channel, passive bool) (err error) {
		if passive {
			_, err = channel.QueueDeclarePassive(name, true, false, false, false, args)
		} else {
			_, err = channel.QueueDeclare(name, true, false, false, false, args)
		}
		return err
	})
}

// declare looks for the thing first, for a declaration makes what is missing; it then
// declares it, for only that compares settings.
func (e *ensuring) declare(what string, declare func(channel *amqp.Channel, passive bool) error) error {
	err := e.try(func(channel *amqp.Channel) error { return declare(channel, true) })
	missing := codeOf(err) == amqp.NotFound
	switch {
	case missing && !e.cfg.Create:
		e.differences = append(e.differences, fmt.Errorf("%s: have none, want one; EnsureConfig.Create makes it", what))
		return nil
	case err != nil && !missing:
		return e.note(what, err)
	}
	err = e.try(func(channel *amqp.Channel) error { return declare(channel, false) })
	if err == nil && missing {
		e.report.Created = append(e.report.Created, what)
	}
	return e.note(what, err)
}

// bind binds the queue to the event's exchange. The default exchange has every queue under
// its own name and takes no bindings.
func (e *ensuring) bind(queue string, event outbox.EventTopology) error {
	what := fmt.Sprintf("binding of queue %s to exchange %s by %s", queue, event.Exchange, event.Key)
	switch {
	case event.Exchange == "" && event.Key == queue:
		return nil
	case event.Exchange == "":
		e.differences = append(e.differences, fmt.Errorf("%s: the default exchange takes no bindings", what))
		return nil
	case !e.cfg.Create:
		e.report.Unverified = append(e.report.Unverified, what)
		return nil
	}
	return e.note(what, e.try(func(channel *amqp.Channel) error {
		return channel.QueueBind(queue, event.Key, event.Exchange, false, nil)
	}))
}

// try does one thing on a channel of its own, which the broker closes when it says no.
func (e *ensuring) try(do func(*amqp.Channel) error) error {
	channel, err := e.conn.Channel()
	if err != nil {
		return err
	}
	if err := do(channel); err != nil {
		return err
	}
	return channel.Close()
}

// note collects what the broker says no to, and passes on what is no answer.
func (e *ensuring) note(what string, err error) error {
	switch codeOf(err) {
	case amqp.PreconditionFailed, amqp.NotFound, amqp.AccessRefused, amqp.ResourceLocked:
		e.differences = append(e.differences, fmt.Errorf("%s: %w", what, err))
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// codeOf is the broker's reply code, 0 where there is none.
func codeOf(err error) int {
	var reason *amqp.Error
	if errors.As(err, &reason) && reason.Server {
		return reason.Code
	}
	return 0
}
