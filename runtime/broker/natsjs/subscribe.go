package natsjs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const (
	// setupRetry is the pause after a failure to reach the server.
	setupRetry = time.Second

	// pullExpiry and pullHeartbeat bound one request for messages. A request that
	// a restarting server has lost is noticed after two heartbeats.
	pullExpiry    = 30 * time.Second
	pullHeartbeat = time.Second
)

// Subscribe hands the stream's events to the handler until ctx ends; then it
// waits for the handlers that are running and returns nil. Any error that it
// returns won't go away by itself: a setting, a missing stream, a durable consumer
// with other settings ([ErrConsumerMismatch]) or one that was deleted while
// reading, a closed connection. What can go away, it waits out and logs.
//
// A message is acknowledged after Handle has returned nil, and the server's answer
// is awaited; an acknowledgement that got lost leads to another delivery, which
// the handler's dedup absorbs. After an error the message is given back with
// a delay that grows, without a limit to the number of deliveries. A message that
// isn't an event is given back too, with the longest delay, and logged once.
//
// A handler that panics is treated as one that returned an error, and its stack is
// logged: the message would come back after a crash just the same, and
// one bad message should not take the process's other work with it again and again.
//
// A consumer that is deleted while it is read isn't made anew: it would begin at
// the start of the stream, perhaps with events whose dedup rows are gone.
func Subscribe(ctx context.Context, js jetstream.JetStream, h outbox.Handler, cfg SubscribeConfig) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	want, err := consumerConfig(h, cfg)
	if err != nil {
		return err
	}
	s := &subscription{
		js: js, handler: h, cfg: cfg, stats: cfg.Stats, durable: want.Durable,
		log: cfg.Logger.With("consumer", h.Name(), "stream", cfg.Stream),
	}
	consumer, err := s.setup(ctx, want)
	if err != nil || consumer == nil {
		return err
	}
	s.ackWait = consumer.CachedInfo().Config.AckWait
	return s.work(ctx, consumer)
}

type subscription struct {
	js      jetstream.JetStream
	handler outbox.Handler
	cfg     SubscribeConfig
	stats   *SubscribeStats
	log     logger
	durable string
	ackWait time.Duration
	seen    sequenceSet // of messages that aren't events, to log each once
}

// setup finds or creates the durable consumer; it returns neither consumer nor
// error when ctx ends.
func (s *subscription) setup(ctx context.Context, want jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	for {
		consumer, err := findOrCreate(ctx, s.js, s.cfg.Stream, want)
		switch {
		case err == nil:
			return consumer, nil
		case ctx.Err() != nil:
			return nil, nil
		case s.terminal(err):
			return nil, fmt.Errorf("natsjs: subscribe %s to stream %s: %w", s.handler.Name(), s.cfg.Stream, err)
		}
		s.log.Warn("the broker can't be reached; trying again", "error", err)
		if !sleep(ctx, setupRetry) {
			return nil, nil
		}
	}
}

// terminal reports whether waiting can't help.
func (s *subscription) terminal(err error) bool {
	var api jetstream.JetStreamError
	switch {
	case s.js.Conn().IsClosed(), errors.Is(err, ErrConsumerMismatch), errors.Is(err, jetstream.ErrInvalidOption):
		return true
	case errors.As(err, &api) && api.APIError() != nil:
		return api.APIError().Code < 500 // 503 and its kin pass
	default:
		return false
	}
}

// work runs the workers. The first one that ends with an error ends the others.
func (s *subscription) work(ctx context.Context, consumer jetstream.Consumer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	// Handlers outlive ctx: their transactions should end with a commit. They have
	// until ShutdownTimeout.
	handling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if sleep(handling, s.cfg.ShutdownTimeout) {
			s.log.Warn("handlers are still running at the end of ShutdownTimeout; cancelling them")
			cancel()
		}
	})()

	var workers sync.WaitGroup
	errs := make(chan error, s.cfg.Concurrency)
	for range s.cfg.Concurrency {
		workers.Go(func() {
			if err := s.read(ctx, handling, consumer); err != nil {
				errs <- err
				stop(err)
			}
		})
	}
	workers.Wait()
	select {
	case err := <-errs:
		return fmt.Errorf("natsjs: subscription of %s to stream %s: %w", s.handler.Name(), s.cfg.Stream, err)
	default:
		return nil
	}
}

// read is one worker: it asks for one message at a time, so that no message
// waits in a buffer of the client while its AckWait runs out.
func (s *subscription) read(ctx, handling context.Context, consumer jetstream.Consumer) error {
	for {
		messages, err := consumer.Messages(
			jetstream.PullMaxMessages(1),
			jetstream.PullExpiry(pullExpiry),
			jetstream.PullHeartbeat(pullHeartbeat),
		)
		if err == nil {
			err = s.readFrom(ctx, handling, messages)
			giveBack(messages)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, jetstream.ErrConsumerDeleted), s.terminal(err):
			return err
		}
		s.log.Warn("reading was interrupted; trying again", "error", err)
		if !sleep(ctx, setupRetry) {
			return nil
		}
	}
}

func (s *subscription) readFrom(ctx, handling context.Context, messages jetstream.MessagesContext) error {
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if errors.Is(err, jetstream.ErrNoHeartbeat) {
			err = s.checkConsumer(ctx)
			if err == nil {
				continue // Next asks for messages anew
			}
		}
		if err != nil {
			return err
		}
		s.handle(handling, m)
	}
}

// checkConsumer is called when the server has stopped answering a request for
// messages. It does so without a word when the consumer was deleted between two
// requests, and jetstream would go on asking for ever.
func (s *subscription) checkConsumer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.AckTimeout)
	defer cancel()
	_, err := s.js.Consumer(ctx, s.cfg.Stream, s.durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return jetstream.ErrConsumerDeleted
	}
	return err
}

// giveBack ends the reading. A message that arrived at the last moment is
// returned at once rather than after AckWait.
func giveBack(messages jetstream.MessagesContext) {
	messages.Drain()
	for {
		m, err := messages.Next(jetstream.NextMaxWait(time.Second))
		if err != nil {
			messages.Stop()
			return
		}
		_ = m.Nak() // at worst it is delivered after AckWait
	}
}

// sleep reports whether the time passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
