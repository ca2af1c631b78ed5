package natsjs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/runtime/internal/delivery"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// setupRetry is the pause after a failure to reach the server.
const setupRetry = time.Second

// Subscribe hands the events to the handler until ctx ends; then it waits for the
// handlers that are running, gives back what else it holds, and returns nil. Any error
// that it returns won't go away by itself: a setting, a missing stream, a durable
// consumer with other settings ([ErrConsumerMismatch]) or one that was deleted while
// reading, a closed connection. What can go away, it waits out and logs.
//
// Events of one aggregate are handled one at a time, in the order of their
// delivery. A message is acknowledged after Handle has returned nil, and the server's
// answer is awaited; an acknowledgement that got lost leads to another delivery, which
// the handler's dedup absorbs. After an error the message is given back with the
// wait that the error has, or one that grows, and without a limit to the number of
// deliveries: to give up on an event is the handler's to decide. Later events of its
// aggregate that come meanwhile are given back too, to come behind it. While the
// handler says that its database can't be worked with, messages are kept, none is
// given back and none is handed out but those that try.
//
// A message that isn't an event is handed to Park, and acknowledged when it has
// returned nil.
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
	cfg = cfg.withDefaults(h.Limits())
	all, err := sources(h, cfg)
	if err != nil {
		return fmt.Errorf("natsjs: consumer %s: %w", h.Name(), err)
	}
	s := &subscription{
		js: js, handler: h, cfg: cfg,
		log: cfg.Logger.With("consumer", h.Name()),
	}
	ackWait := time.Duration(1<<63 - 1)
	for _, from := range all {
		r, err := s.setup(ctx, from)
		if err != nil || r == nil {
			return err
		}
		s.readers = append(s.readers, r)
		ackWait = min(ackWait, r.ackWait())
	}
	s.engine = delivery.New(ctx, delivery.Config{
		Handler: h, Concurrency: cfg.Concurrency, Backoff: cfg.Backoff, MaxBackoff: cfg.MaxBackoff,
		AliveEvery: ackWait / 3, // so that one that gets lost does no harm
		Logger:     s.log, Stats: cfg.Stats,
	})
	defer s.engine.Close(cfg.ShutdownTimeout)
	defer delivery.Redrives(ctx, h)()
	return s.read(ctx)
}

type subscription struct {
	js      jetstream.JetStream
	handler outbox.Handler
	cfg     SubscribeConfig
	log     *slog.Logger
	readers []*reader
	engine  *delivery.Engine
}

// setup finds or creates the durable consumer; it returns neither reader nor
// error when ctx ends.
func (s *subscription) setup(ctx context.Context, from source) (*reader, error) {
	want := consumerConfig(s.handler.Name(), from, s.cfg.AckWait, s.cfg.MaxAckPending)
	log := s.log.With("stream", from.stream)
	for {
		consumer, err := findOrCreate(ctx, s.js, from, want, log)
		switch {
		case err == nil:
			r := newReader(s, from, consumer, log)
			if limit := s.handler.Limits().Timeout; limit >= r.ackWait() {
				log.Warn("the handler's timeout is not below AckWait; when signs of life get lost, its event is delivered again meanwhile",
					"timeout", limit, "ack_wait", r.ackWait())
			}
			return r, nil
		case ctx.Err() != nil:
			return nil, nil
		case s.terminal(err):
			return nil, fmt.Errorf("natsjs: subscribe %s to stream %s: %w", s.handler.Name(), from.stream, err)
		}
		log.Warn("the broker can't be reached; trying again", "error", err)
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

// read runs the readers. The first one that ends with an error ends the others.
func (s *subscription) read(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var reading sync.WaitGroup
	errs := make(chan error, len(s.readers))
	for _, r := range s.readers {
		reading.Go(func() {
			if err := r.run(ctx); err != nil {
				errs <- fmt.Errorf("natsjs: subscription of %s to stream %s: %w", s.handler.Name(), r.from.stream, err)
				stop(err)
			}
		})
	}
	reading.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
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
