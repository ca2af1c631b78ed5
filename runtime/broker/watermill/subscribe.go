package watermill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outboxgen/outboxgen/runtime/internal/delivery"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// ErrSubscriptionEnded is returned by [Subscribe] when the wrapped subscriber has ended a
// subscription by itself, as its Close does.
var ErrSubscriptionEnded = errors.New("the subscriber has ended the subscription")

// Subscribe hands the events to the handler until ctx ends; then it waits for the
// handlers that are running, gives back what else it holds, ends its subscriptions and
// returns nil. The wrapped subscriber stays open. An error that it returns is a setting,
// the wrapped subscriber's own to Subscribe, or [ErrSubscriptionEnded]; to reconnect is
// the wrapped subscriber's to do.
//
// Events of one aggregate are handled one at a time, in the order of their delivery
// within a topic; put the event types of an aggregate into one topic. A message is
// acknowledged after Handle has returned nil. Watermill knows no delay: after an error the
// message stays here until its wait is over, without a limit to the number of tries, and
// later events of its aggregate wait behind it. So does, with a Pub/Sub that hands
// out one message at a time, everything else of its topic or partition. If such a wait
// can be longer than the Pub/Sub's own time for an acknowledgement, the broker delivers
// the message again meanwhile; the handler's dedup absorbs that.
//
// Events of other types in the same topic are acknowledged and not handled. A message that
// isn't an event is handed to Park, and acknowledged when it has returned nil.
//
// Whether a broker has an acknowledgement is not known: Watermill doesn't tell. That the
// wrapped subscriber has taken it shows by the end of the message's context. One that doesn't
// end it is waited for once, for AckTimeout; an acknowledgement that it has not passed
// on when the subscription ends is then lost, and its event delivered again.
func Subscribe(ctx context.Context, wrapped message.Subscriber, h outbox.Handler, cfg SubscribeConfig) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults(h.Limits())
	topics, err := topicsOf(h, cfg)
	if err != nil {
		return fmt.Errorf("watermill: consumer %s: %w", h.Name(), err)
	}
	s := &subscription{
		cfg: cfg, log: cfg.Logger.With("consumer", h.Name()), handles: make(map[string]bool), silent: make(chan struct{}),
	}
	s.isSilent = sync.OnceFunc(func() { close(s.silent) })
	for _, eventType := range h.EventTypes() {
		s.handles[eventType] = true
	}
	// With the end of a subscription's context acknowledgements get lost, so it
	// comes after the last of them.
	subscribing, end := context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		end()
		s.giveBack()
	}()
	for _, topic := range topics {
		messages, err := wrapped.Subscribe(subscribing, topic)
		if err != nil {
			return fmt.Errorf("watermill: subscribe %s to topic %q: %w", h.Name(), topic, err)
		}
		s.sources = append(s.sources, source{topic: topic, messages: messages})
	}
	s.engine = delivery.New(ctx, delivery.Config{
		Handler: h, Concurrency: cfg.Concurrency, Window: cfg.Prefetch, Hold: true,
		Backoff: cfg.Backoff, MaxBackoff: cfg.MaxBackoff, Logger: s.log, Stats: cfg.Stats,
	})
	defer s.engine.Close(cfg.ShutdownTimeout)
	defer delivery.Redrives(ctx, h)()
	if err := s.read(ctx); err != nil {
		return fmt.Errorf("watermill: consumer %s: %w", h.Name(), err)
	}
	return nil
}

type subscription struct {
	cfg     SubscribeConfig
	log     *slog.Logger
	handles map[string]bool // event types
	sources []source
	engine  *delivery.Engine

	silent   chan struct{} // closed when the wrapped subscriber doesn't show that it takes acknowledgements
	isSilent func()
}

// source is a topic that is read.
type source struct {
	topic    string
	messages <-chan *message.Message
}

// read reads all topics. The first one that ends by itself ends the others.
func (s *subscription) read(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make(chan error, len(s.sources))
	var reading sync.WaitGroup
	for _, from := range s.sources {
		reading.Go(func() {
			if err := s.readFrom(ctx, from); err != nil {
				errs <- err
				stop()
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

func (s *subscription) readFrom(ctx context.Context, from source) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case m, ok := <-from.messages:
			if !ok {
				return fmt.Errorf("topic %q: %w", from.topic, ErrSubscriptionEnded)
			}
			s.submit(ctx, from.topic, m)
		}
	}
}

// submit hands a message over, or acknowledges one that is for others.
func (s *subscription) submit(ctx context.Context, topic string, m *message.Message) {
	meta := read(m)
	eventType := meta.eventType()
	if eventType != "" && !s.handles[eventType] {
		m.Ack()
		return
	}
	e, err := meta.envelope(m.Payload)
	if err == nil && !s.handles[e.Type] { // in structured mode
		m.Ack()
		return
	}
	d := delivery.Message{
		Envelope: e,
		Attrs:    []any{"topic", topic},
		Ack:      func(context.Context) { s.ack(topic, m) },
		Again:    func(context.Context, time.Duration) { m.Nack() },
	}
	if err != nil {
		d.Unreadable = unreadable(m, err)
	}
	if !s.engine.Submit(ctx, d) {
		m.Nack()
	}
}

// ack acknowledges and waits for the end of the message's context, with which the wrapped
// subscriber shows that it has seen it: it may have to before its subscription ends.
func (s *subscription) ack(topic string, m *message.Message) {
	taken := m.Context().Done()
	if m.Ack() && s.seen(taken) {
		s.cfg.Stats.Acked.Add(1)
		return
	}
	s.cfg.Stats.AckFailed.Add(1)
	s.log.Warn("the event was handled, but the subscriber has not taken its acknowledgement; it may be delivered again", "topic", topic)
}

// seen reports whether done was closed before AckTimeout. After the first time that it
// wasn't, nothing is waited for and all counts as seen, as what has no channel does: a
// wrapped subscriber that never shows it would cost AckTimeout for every event.
func (s *subscription) seen(done <-chan struct{}) bool {
	if done == nil {
		return true
	}
	timer := time.NewTimer(s.cfg.AckTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-s.silent:
		return true
	case <-timer.C:
		s.isSilent()
		return false
	}
}

// giveBack takes what the wrapped subscriber hands out while it ends a subscription, until
// it has, so that none of its goroutines waits for ever.
func (s *subscription) giveBack() {
	timer := time.NewTimer(s.cfg.AckTimeout)
	defer timer.Stop()
	for _, from := range s.sources {
		for open := true; open; {
			var m *message.Message
			select {
			case m, open = <-from.messages:
				if open {
					m.Nack()
				}
			case <-timer.C:
				s.log.Warn("the subscriber doesn't end its subscription", "topic", from.topic)
				return
			}
		}
	}
}
