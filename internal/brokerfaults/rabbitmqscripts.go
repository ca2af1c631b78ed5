package main

import (
	"context"
	"errors"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/broker/rabbitmq"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

var (
	alarm      = cause{"an alarm", outbox.FailureUnavailable, func(err error) bool { return errors.Is(err, rabbitmq.ErrBlocked) }}
	noExchange = cause{"a missing exchange", outbox.FailureUnavailable, func(err error) bool { return errors.Is(err, rabbitmq.ErrNoExchange) }}
	unroutable = cause{"an unroutable event", outbox.FailureRejected, func(err error) bool { return errors.Is(err, rabbitmq.ErrUnroutable) }}
)

// cancelEvery is one in so many events that is unroutable.
const cancelEvery = 1000

func (b *rabbitBroker) scenarios() []scenario {
	// With one consumer there is no queue for order.cancelled.
	one := topology()
	one.Consumers = slices.DeleteFunc(one.Consumers, func(c outbox.ConsumerTopology) bool {
		return c.Name != orderevents.ConsumerNameSalesReport
	})
	sales := one.Consumers[0].Queue
	mayReturn := append([]outbox.FailureKind{outbox.FailureRejected}, outageKinds...)
	return []scenario{killed, cut, {
		name: "alarm", topology: topology(), script: b.alarm,
		want: expectation{failures: outageKinds, causes: []cause{alarm}},
	}, {
		name: "unroutable", topology: one, cancelEvery: cancelEvery,
		script: func(context.Context, *run) error { return nil },
		want: expectation{
			failures: []outbox.FailureKind{outbox.FailureRejected}, causes: []cause{unroutable},
			reason: rabbitmq.ErrUnroutable.Error(), dies: orderevents.EventTypeOrderCancelled, steady: true,
		},
	}, {
		// The other queue has all of them, the one that was deleted those that were
		// confirmed when it was there again.
		name: "delete-queue", topology: topology(), script: b.deleteQueue,
		want: expectation{failures: outageKinds, lossy: []string{sales}},
	}, {
		name: "delete-exchange", topology: topology(), script: b.deleteExchange,
		want: expectation{failures: outageKinds, causes: []cause{noExchange}},
	}, {
		name: "delete-all", topology: topology(), script: b.deleteAll,
		want: expectation{
			failures: outageKinds, causes: []cause{noExchange},
			lossy: []string{topology().Consumers[0].Queue, topology().Consumers[1].Queue},
		},
	}, {
		name: "unbind", topology: one, script: b.unbind,
		want: expectation{failures: mayReturn, causes: []cause{unroutable}, reason: rabbitmq.ErrUnroutable.Error()},
	}}
}

func (b *rabbitBroker) alarm(ctx context.Context, r *run) error {
	if err := r.gate.shut(ctx, r.events/2); err != nil {
		return err
	}
	r.record.breaks()
	if err := b.server.MemoryAlarm(ctx, true); err != nil {
		return err
	}
	r.gate.open()
	if err := r.awaitOutage(ctx, alarm); err != nil {
		return err
	}
	r.record.mends()
	return b.server.MemoryAlarm(ctx, false)
}

// breakBatch does something to the server when some of a batch is at the broker and
// the rest isn't.
func (b *rabbitBroker) breakBatch(ctx context.Context, r *run, fn func(*amqp.Channel) error) error {
	if err := r.outstanding(ctx, r.events/4); err != nil {
		return err
	}
	r.record.breaks()
	if err := b.do(fn); err != nil {
		return err
	}
	r.proxy.release()
	return nil
}

// deleteQueue deletes one of the two queues, and makes it again a good deal later.
func (b *rabbitBroker) deleteQueue(ctx context.Context, r *run) error {
	err := b.breakBatch(ctx, r, func(channel *amqp.Channel) error {
		n, err := channel.QueueDelete(r.want.lossy[0], false, false, false)
		r.evidence["a message in the deleted queue"] = n
		return err
	})
	if err != nil {
		return err
	}
	return b.ensureAt(ctx, r, r.events/2)
}

// ensureAt calls Ensure when n events are answered, and nothing is being published.
func (b *rabbitBroker) ensureAt(ctx context.Context, r *run, n int) error {
	if err := r.gate.shut(ctx, n); err != nil {
		return err
	}
	r.record.mends()
	if err := b.ensure(ctx, r.topology); err != nil {
		return err
	}
	r.gate.open()
	return nil
}

// deleteExchange deletes the exchange, and with it its bindings.
func (b *rabbitBroker) deleteExchange(ctx context.Context, r *run) error {
	exchange := r.topology.Events[0].Exchange
	err := b.breakBatch(ctx, r, func(channel *amqp.Channel) error { return channel.ExchangeDelete(exchange, false, false) })
	if err != nil {
		return err
	}
	return b.remake(ctx, r)
}

// deleteAll deletes the exchange and both queues.
func (b *rabbitBroker) deleteAll(ctx context.Context, r *run) error {
	err := b.breakBatch(ctx, r, func(channel *amqp.Channel) error {
		for _, queue := range r.want.lossy {
			n, err := channel.QueueDelete(queue, false, false, false)
			if err != nil {
				return err
			}
			r.evidence["a message in the deleted queue "+queue] = n
		}
		return channel.ExchangeDelete(r.topology.Events[0].Exchange, false, false)
	})
	if err != nil {
		return err
	}
	return b.remake(ctx, r)
}

// remake calls Ensure when the relays have paused for the exchange and, as an operator
// should have it, don't publish.
func (b *rabbitBroker) remake(ctx context.Context, r *run) error {
	if err := r.awaitOutage(ctx, noExchange); err != nil {
		return err
	}
	return b.ensureAt(ctx, r, 0)
}

// unbind takes the only queue's binding away; what is published meanwhile is unroutable.
func (b *rabbitBroker) unbind(ctx context.Context, r *run) error {
	place, _ := r.topology.Event(orderevents.EventTypeOrderAccepted)
	err := b.breakBatch(ctx, r, func(channel *amqp.Channel) error {
		return channel.QueueUnbind(r.topology.Consumers[0].Queue, place.Key, place.Exchange, nil)
	})
	if err != nil {
		return err
	}
	return b.ensureAt(ctx, r, r.events/2)
}
