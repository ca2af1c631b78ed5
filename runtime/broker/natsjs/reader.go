package natsjs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// pullExpiry and pullHeartbeat bound one request for messages. A request that
// a restarting server has lost is noticed after two heartbeats.
const (
	pullExpiry    = 30 * time.Second
	pullHeartbeat = time.Second
)

// reader reads one durable consumer. It asks for as many messages as it has room
// for and hands each over as it comes, so that none waits in a buffer of the
// client, where no sign of life is given for it.
type reader struct {
	s        *subscription
	from     source
	consumer jetstream.Consumer
	log      *slog.Logger
	room     *room
}

func newReader(s *subscription, from source, consumer jetstream.Consumer, log *slog.Logger) *reader {
	return &reader{s: s, from: from, consumer: consumer, log: log, room: newRoom(s.cfg.Prefetch)}
}

func (r *reader) ackWait() time.Duration { return r.consumer.CachedInfo().Config.AckWait }

func (r *reader) run(ctx context.Context) error {
	for {
		n, ok := r.room.take(ctx)
		if !ok {
			return nil
		}
		messages, err := r.consumer.Messages(
			jetstream.PullMaxMessages(n),
			jetstream.StopAfter(n),
			jetstream.PullExpiry(pullExpiry),
			jetstream.PullHeartbeat(pullHeartbeat),
		)
		if err == nil {
			n, err = r.readFrom(ctx, messages, n)
			r.giveBack(messages)
		}
		r.room.put(n)
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, jetstream.ErrConsumerDeleted), r.s.terminal(err):
			return err
		}
		r.log.Warn("reading was interrupted; trying again", "error", err)
		if !sleep(ctx, setupRetry) {
			return nil
		}
	}
}

// readFrom hands over n messages. It returns how many are left of them.
func (r *reader) readFrom(ctx context.Context, messages jetstream.MessagesContext, n int) (left int, err error) {
	for n > 0 {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if errors.Is(err, jetstream.ErrNoHeartbeat) {
			err = r.checkConsumer(ctx)
			if err == nil {
				continue // Next asks for messages anew
			}
		}
		if err != nil {
			return n, err
		}
		r.submit(ctx, m)
		n--
	}
	return 0, nil
}

// checkConsumer is called when the server has stopped answering a request for
// messages. It does so without a word when the consumer was deleted between two
// requests, and jetstream would go on asking for ever.
func (r *reader) checkConsumer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.s.cfg.AckTimeout)
	defer cancel()
	_, err := r.s.js.Consumer(ctx, r.from.stream, r.from.durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return jetstream.ErrConsumerDeleted
	}
	return err
}

// giveBack ends a request. A message that arrived at the last moment is
// returned at once rather than after AckWait.
func (r *reader) giveBack(messages jetstream.MessagesContext) {
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
