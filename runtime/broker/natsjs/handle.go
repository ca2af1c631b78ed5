package natsjs

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

type logger = *slog.Logger

// handle takes one message to its end: acknowledged, or given back.
func (s *subscription) handle(ctx context.Context, m jetstream.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		s.log.Error("a message without JetStream's metadata; leaving it", "error", err)
		return
	}
	s.stats.Delivered.Add(1)
	if meta.NumDelivered > 1 {
		s.stats.Redelivered.Add(1)
	}
	log := s.log.With("sequence", meta.Sequence.Stream, "delivery", meta.NumDelivered)

	e, err := decode(m.Headers(), m.Data())
	if err != nil {
		s.stats.NotEvents.Add(1)
		if s.seen.add(meta.Sequence.Stream) {
			log.Error("a message on the subject isn't an event; it stays unacknowledged", "error", err)
		}
		s.nak(log, m, s.cfg.MaxBackoff)
		return
	}
	log = log.With("event_id", e.ID, "event_type", e.Type)

	if err := s.call(ctx, log, m, e); err != nil {
		delay := s.backoff(meta.NumDelivered)
		log.Warn("the event was not handled", "error", err, "again_in", delay.Round(time.Millisecond))
		s.nak(log, m, delay)
		return
	}
	s.ack(ctx, log, m)
}

// call runs the handler and tells the server meanwhile that the message is being
// worked on.
func (s *subscription) call(ctx context.Context, log logger, m jetstream.Msg, e outbox.Envelope) (err error) {
	stop := s.keepAlive(log, m)
	defer stop()
	defer func() {
		if v := recover(); v != nil {
			s.stats.Panics.Add(1)
			err = panicError(v)
			log.Error("the handler panicked", "error", err, "stack", string(debug.Stack()))
		}
	}()
	_, err = s.handler.Handle(ctx, e)
	return err
}

// panicError says what a panic was without the value of it, which may be data. The
// runtime's own errors have none.
func panicError(v any) error {
	if err, ok := v.(runtime.Error); ok {
		return fmt.Errorf("panic: %w", err)
	}
	return fmt.Errorf("panic with a %T", v)
}

// keepAlive begins the signs of life. stop returns when they have ended, so that
// none can follow the acknowledgement.
func (s *subscription) keepAlive(log logger, m jetstream.Msg) (stop func()) {
	done := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() {
		// A third, so that one that gets lost does no harm.
		ticker := time.NewTicker(s.ackWait / 3)
		defer ticker.Stop()
		for n := 1; ; n++ {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			if err := m.InProgress(); err != nil {
				log.Warn("can't tell the broker that the handler is still running; the event may be delivered again meanwhile", "error", err)
			}
			if n == 3 {
				log.Warn("the handler has been running for longer than AckWait", "ack_wait", s.ackWait)
			}
		}
	})
	return func() {
		close(done)
		beating.Wait()
	}
}

// ackRetry is the pause before an acknowledgement that couldn't be sent, as while
// reconnecting, is sent again.
const ackRetry = 50 * time.Millisecond

// ack acknowledges and waits for the server's answer. Without one before
// AckTimeout, the message is delivered again after AckWait.
func (s *subscription) ack(ctx context.Context, log logger, m jetstream.Msg) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.AckTimeout)
	defer cancel()
	for {
		err := m.DoubleAck(ctx)
		if err == nil {
			s.stats.Acked.Add(1)
			return
		}
		if s.js.Conn().IsClosed() || !sleep(ctx, ackRetry) {
			s.stats.AckFailed.Add(1)
			log.Warn("the event was handled, but its acknowledgement is not confirmed; it may be delivered again", "error", err)
			return
		}
	}
}

func (s *subscription) nak(log logger, m jetstream.Msg, delay time.Duration) {
	if err := m.NakWithDelay(delay); err != nil {
		log.Warn("the message couldn't be given back; it is delivered again after AckWait", "error", err)
		return
	}
	s.stats.Naked.Add(1)
}

// backoff is Backoff, doubled with every delivery after the first up to MaxBackoff,
// and varied by a fifth either way so that what failed together doesn't come
// back together.
func (s *subscription) backoff(deliveries uint64) time.Duration {
	d := s.cfg.MaxBackoff
	if n := deliveries - 1; n < 32 && s.cfg.Backoff < s.cfg.MaxBackoff>>n {
		d = s.cfg.Backoff << n
	}
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

// sequenceSet remembers sequence numbers, and forgets them all when they are many.
type sequenceSet struct {
	mu   sync.Mutex
	seen map[uint64]struct{}
}

const maxSeen = 4096

// add reports whether the number is new.
func (s *sequenceSet) add(n uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.seen[n]; ok {
		return false
	}
	if s.seen == nil || len(s.seen) >= maxSeen {
		s.seen = make(map[uint64]struct{})
	}
	s.seen[n] = struct{}{}
	return true
}
