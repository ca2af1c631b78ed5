package main

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/gen/orderevents"
)

// parkedEvents: tenant 4 has no notification channel, which breaks a foreign key.
func parkedEvents(ctx context.Context, w *world) error {
	if err := w.order(ctx, 1, 5); err != nil {
		return err
	}
	if err := w.order(ctx, 4, 3); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 3, parked); err != nil {
		return err
	}
	if err := w.says(ctx, 0, []string{"PARKED AT"}, "status"); err != nil {
		return err
	}
	if err := w.says(ctx, 0, []string{"1452"}, "parked", "list"); err != nil {
		return err
	}
	var id string
	if err := w.db.QueryRowContext(ctx, "SELECT event_id FROM parked_event ORDER BY event_id LIMIT 1").Scan(&id); err != nil {
		return err
	}
	if err := w.says(ctx, 0, []string{"PUBLISHED", "1452"}, "show", id); err != nil {
		return err
	}
	// A redrive before the cause is gone: it stays parked, and the command says so.
	if err := w.says(ctx, 1, []string{id}, "parked", "redrive", "notification-planner", id, "--yes"); err != nil {
		return err
	}
	if err := w.exec(ctx, "INSERT INTO notification_channel (tenant_id, channel) VALUES (4, 'mail')"); err != nil {
		return err
	}
	if err := w.says(ctx, 0, []string{"3 events would be"}, "parked", "redrive", "notification-planner", "--all"); err != nil {
		return err
	}
	if _, err := w.outboxgen(ctx, 0, "parked", "redrive", "notification-planner", "--all", "--yes"); err != nil {
		return err
	}
	if _, err := w.outboxgen(ctx, 0, "consumed", "notification-planner", id); err != nil {
		return err
	}
	return w.mended(ctx)
}

// deadTooLarge: the stream takes no message above 2 KiB.
func deadTooLarge(ctx context.Context, w *world) error {
	limit := func(bytes int32) error {
		return w.changeStream(ctx, func(c *jetstream.StreamConfig) { c.MaxMsgSize = bytes })
	}
	if err := limit(2048); err != nil {
		return err
	}
	if err := w.order(ctx, 1, 5); err != nil {
		return err
	}
	if err := w.orderNote(ctx, 1, 2, strings.Repeat("x", 4000)); err != nil {
		return err
	}
	if err := w.deadOnes(ctx, 2); err != nil {
		return err
	}
	// A redrive before the cause is gone: they die again.
	if _, err := w.outboxgen(ctx, 0, "dead", "redrive", "--all", "--yes"); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 2, dead); err != nil {
		return err
	}
	if err := limit(-1); err != nil {
		return err
	}
	return w.redriveDead(ctx)
}

func (w *world) changeStream(ctx context.Context, change func(*jetstream.StreamConfig)) error {
	conn, err := nats.Connect(w.broker.URL())
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, orderevents.Topology().Events[0].Stream)
	if err != nil {
		return err
	}
	cfg := stream.CachedInfo().Config
	change(&cfg)
	_, err = js.UpdateStream(ctx, cfg)
	return err
}

// deadUnroutable: nobody has bound a queue for the events.
func deadUnroutable(ctx context.Context, w *world) error {
	if err := w.order(ctx, 1, 5); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 5, reported); err != nil {
		return err
	}
	if err := w.unbind(); err != nil {
		return err
	}
	if err := w.order(ctx, 2, 3); err != nil {
		return err
	}
	if err := w.deadOnes(ctx, 3); err != nil {
		return err
	}
	if err := w.ensureTopology(ctx); err != nil {
		return err
	}
	return w.redriveDead(ctx)
}

func (w *world) unbind() error {
	conn, err := amqp.Dial(w.broker.URL())
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	event := orderevents.Topology().Events[0]
	for _, c := range orderevents.Topology().Consumers {
		if err := ch.QueueUnbind(c.Queue, event.Key, event.Exchange, nil); err != nil {
			return err
		}
	}
	return nil
}

// deadOnes waits for n dead events and looks at them.
func (w *world) deadOnes(ctx context.Context, n int) error {
	if err := w.awaitCount(ctx, n, dead); err != nil {
		return err
	}
	for _, c := range []struct {
		words []string
		args  []string
	}{
		{[]string{"DEAD TYPE", "rejected"}, []string{"status"}},
		{[]string{"rejected"}, []string{"dead", "list"}},
	} {
		if err := w.says(ctx, 0, c.words, c.args...); err != nil {
			return err
		}
	}
	var id string
	if err := w.db.QueryRowContext(ctx, "SELECT event_id FROM outbox_event WHERE status = 3 LIMIT 1").Scan(&id); err != nil {
		return err
	}
	if _, err := w.outboxgen(ctx, 0, "dead", "show", id); err != nil {
		return err
	}
	if _, err := w.outboxgen(ctx, 0, "dead", "discard", id, "--reason", "only a trial", "--yes"); err != nil {
		return err
	}
	if _, err := w.outboxgen(ctx, 0, "dead", "redrive", id, "--discarded", "--yes"); err != nil {
		return err
	}
	return w.awaitCount(ctx, n, dead) // it has died again
}

func (w *world) redriveDead(ctx context.Context) error {
	if _, err := w.outboxgen(ctx, 0, "dead", "redrive", "--all"); err != nil {
		return err
	}
	if _, err := w.outboxgen(ctx, 0, "dead", "redrive", "--all", "--yes"); err != nil {
		return err
	}
	return w.mended(ctx)
}

// quietly looks for a word in a command's answer, without printing it.
func (w *world) quietly(ctx context.Context, word string, args ...string) (bool, error) {
	out, err := w.command(ctx, w.dsn, args...).CombinedOutput()
	if err != nil {
		return false, err
	}
	return strings.Contains(string(out), word), nil
}
