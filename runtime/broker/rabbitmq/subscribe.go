package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/runtime/internal/delivery"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// ErrNoQueue is returned by Subscribe when the consumer's queue, or one of those in which
// its failed messages wait, doesn't exist. [Ensure] makes them.
var ErrNoQueue = errors.New("the queue does not exist")

// Subscribe hands the queue's events to the handler until ctx ends; then it waits for the
// handlers that are running and returns nil. Any error that it returns won't go away by
// itself: a setting, a missing queue ([ErrNoQueue]), also one that was deleted meanwhile,
// or a broker that is too old. What can go away, it waits out and logs.
//
// A message is acknowledged after the handler has returned nil. AMQP has no answer to an
// acknowledgement; one that got lost leads to another delivery, which the handler's
// dedup absorbs. After an error the message is put into a queue of the broker's where it
// waits, and comes back to the end of the consumer's queue; it is acknowledged when the
// broker has confirmed that it waits. There is no limit to the number of deliveries. While
// the broker takes no messages, it stays here and that is tried again. A message that isn't an
// event is handed to the handler's Park and acknowledged.
//
// It has two connections, for the broker stops reading from one that publishes while it is
// short of memory: acknowledgements go over the one, messages that wait over the other,
// which is opened with the first of them.
func Subscribe(ctx context.Context, c Connector, h outbox.Handler, cfg SubscribeConfig) error {
	if err := c.validate(); err != nil {
		return err
	}
	if err := cfg.validate(h); err != nil {
		return err
	}
	cfg = cfg.withDefaults(h)
	ctx, cancel := context.WithCancel(ctx)
	s := &subscription{
		ctx: ctx, connector: c.withDefaults(), cfg: cfg,
		log:     cfg.Logger.With("consumer", h.Name(), "queue", cfg.Queue),
		waiting: newSender(c, cfg.Prefetch, cfg.ConfirmTimeout, cfg.Backoff, cfg.MaxBackoff),
	}
	defer s.waiting.close()
	s.engine = delivery.New(ctx, delivery.Config{
		Handler: h, Concurrency: cfg.Concurrency, Window: cfg.Prefetch,
		Backoff: cfg.Backoff, MaxBackoff: cfg.MaxBackoff, Logger: s.log, Stats: cfg.Stats,
	})
	s.close = sync.OnceFunc(func() { s.engine.Close(cfg.ShutdownTimeout) })
	defer s.close()
	defer cancel() // before it, so that what waits here ends also when ctx hasn't
	defer delivery.Redrives(ctx, h)()
	if err := s.run(); err != nil {
		return fmt.Errorf("rabbitmq: subscription of %s to queue %s: %w", h.Name(), cfg.Queue, err)
	}
	return nil
}

type subscription struct {
	ctx       context.Context //nolint:containedctx // the subscription's own
	connector Connector
	cfg       SubscribeConfig
	log       *slog.Logger
	engine    *delivery.Engine
	close     func()  // the engine; may be called twice
	waiting   *sender // of the messages that are put into a queue to wait
}

// run reads over one connection after the other.
func (s *subscription) run() error {
	for n := 1; ; n++ {
		began := time.Now()
		err := s.session()
		switch {
		case s.ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrNoQueue), errors.Is(err, errTooOld):
			return err
		case time.Since(began) > s.cfg.MaxBackoff:
			n = 1
		}
		pause := backoff(s.cfg.Backoff, s.cfg.MaxBackoff, n)
		s.log.Warn("not reading; trying again", "error", err, "again_in", pause.Round(time.Millisecond).String())
		if !sleep(s.ctx, pause) {
			return nil
		}
	}
}

// errTooOld wraps what checkVersion says.
var errTooOld = errors.New("can't work with this broker")

// session reads over one connection until it is lost or ctx ends. In the latter case it
// also waits for the handlers, whose acknowledgements go over it.
func (s *subscription) session() error {
	conn, err := s.connector.dial(s.ctx)
	if err != nil {
		return err
	}
	defer conn.end(5 * time.Second)
	if err := checkVersion(conn.version()); err != nil {
		return fmt.Errorf("%w: %w", errTooOld, err)
	}
	channel, deliveries, err := s.begin(conn)
	if err != nil {
		return err
	}
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	for {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return endError(channel, closed)
			}
			if !channel.IsClosed() { // what is left of a lost connection is delivered again
				s.submit(channel, d)
			}
		case <-s.ctx.Done():
			// The consumer isn't cancelled first, and nothing is given back one by one: the
			// next process would begin behind what this one still has. The end of the
			// channel gives back everything at once, in its order; when it is
			// answered, the acknowledgements before it have arrived.
			s.close()
			_ = channel.Close()
			return s.ctx.Err()
		}
	}
}

// begin asks for messages. An answer that doesn't come in time, or before ctx ends, costs
// the connection.
func (s *subscription) begin(conn *connection) (*amqp.Channel, <-chan amqp.Delivery, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.connector.DialTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, conn.cut)()
	queues := []string{s.cfg.Queue}
	for _, delay := range s.cfg.RetryDelays {
		queues = append(queues, retryQueue(s.cfg.Queue, delay))
	}
	for _, queue := range queues {
		if err := findQueue(conn, queue); err != nil {
			return nil, nil, err
		}
	}
	channel, err := conn.Channel()
	if err != nil {
		return nil, nil, fmt.Errorf("open a channel: %w", err)
	}
	if err := channel.Qos(s.cfg.Prefetch, 0, false); err != nil {
		return nil, nil, fmt.Errorf("set the prefetch: %w", err)
	}
	deliveries, err := channel.Consume(s.cfg.Queue, "", false, false, false, false, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("consume: %w", err)
	}
	return channel, deliveries, nil
}

// findQueue returns ErrNoQueue when the queue doesn't exist, and not when it can't be
// reached, such as while its leader is being elected.
func findQueue(conn *connection, name string) error {
	channel, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	_, err = channel.QueueDeclarePassive(name, true, false, false, false, nil)
	if err == nil {
		return channel.Close()
	}
	var reason *amqp.Error // with which the broker has closed the channel
	if errors.As(err, &reason) && reason.Code == amqp.NotFound && strings.Contains(reason.Reason, "no queue") {
		return fmt.Errorf("%w: %s; Ensure makes it, with the same RetryDelays", ErrNoQueue, name)
	}
	return fmt.Errorf("queue %s: %w", name, err)
}

// endError is why no more messages come.
func endError(channel *amqp.Channel, closed <-chan *amqp.Error) error {
	if !channel.IsClosed() {
		return errors.New("the broker has cancelled the consumer: its queue was deleted or has moved")
	}
	select {
	case err := <-closed:
		if err != nil {
			return err
		}
	default:
	}
	return amqp.ErrClosed
}
