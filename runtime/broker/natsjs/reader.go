package natsjs

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// pullExpiry and pullHeartbeat bound one request for messages. A request that
// a restarting server has lost is noticed after two heartbeats.
const (
	pullExpiry    = 30 * time.Second
	pullHeartbeat = time.Second

	// leastExpiry is the shortest that the library asks for.
	leastExpiry = time.Second
)

// lookEvery is after how long without a message the consumer is looked at: a paused one
// hands out nothing and gives signs of life all the same.
const lookEvery = 30 * time.Second

// silentWarning is after how many requests without an answer, one after the other, a
// warning is due. A restart of the server or another leader costs one or two.
const silentWarning = 3

// reader reads one durable consumer. It asks for as many messages as it has room
// for and hands each over as it comes, so that none waits in a buffer of the
// client, where no sign of life is given for it.
type reader struct {
	s        *subscription
	from     source
	consumer jetstream.Consumer
	log      *slog.Logger
	room     *room

	lookEvery time.Duration
	paused    bool // the consumer, when it was last looked at
	silent    int  // requests without an answer, one after the other
}

func newReader(s *subscription, from source, consumer jetstream.Consumer, log *slog.Logger) *reader {
	return &reader{s: s, from: from, consumer: consumer, log: log, room: newRoom(s.cfg.Prefetch), lookEvery: lookEvery}
}

func (r *reader) ackWait() time.Duration { return r.consumer.CachedInfo().Config.AckWait }

// limits are those of the consumer for one request. The server refuses what is above
// them in a message that the library swallows.
type limits struct {
	batch  int
	expiry time.Duration
}

func (r *reader) limits() limits {
	own, l := r.consumer.CachedInfo().Config, limits{batch: math.MaxInt, expiry: pullExpiry}
	if own.MaxRequestBatch > 0 {
		l.batch = own.MaxRequestBatch
	}
	if own.MaxRequestExpires > 0 {
		l.expiry = min(l.expiry, own.MaxRequestExpires)
	}
	return l
}

func (r *reader) run(ctx context.Context) error {
	r.look()
	for {
		n, ok := r.room.take(ctx)
		if !ok {
			return nil
		}
		asked := r.limits()
		if rest := n - asked.batch; rest > 0 {
			n -= rest
			r.room.put(rest)
		}
		messages, err := r.consumer.Messages(
			jetstream.PullMaxMessages(n),
			jetstream.StopAfter(n),
			jetstream.PullExpiry(asked.expiry),
			jetstream.PullHeartbeat(min(pullHeartbeat, asked.expiry/2)),
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

// readFrom hands over n messages. It returns how many are left of them. It ends early when the
// consumer's limits have changed, for the request may be above them.
func (r *reader) readFrom(ctx context.Context, messages jetstream.MessagesContext, n int) (left int, err error) {
	asked := r.limits()
	for n > 0 {
		m, err := r.next(ctx, messages)
		silent := errors.Is(err, jetstream.ErrNoHeartbeat)
		switch {
		case err == nil:
			r.silent = 0
			r.submit(ctx, m)
			n--
			continue
		case ctx.Err() != nil, !silent && !errors.Is(err, context.DeadlineExceeded):
			return n, err
		}
		if err := r.checkConsumer(ctx); err != nil || r.limits() != asked {
			return n, err
		}
		r.count(silent) // and Next asks for messages anew
	}
	return 0, nil
}

func (r *reader) next(ctx context.Context, messages jetstream.MessagesContext) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, r.lookEvery)
	defer cancel()
	return messages.Next(jetstream.NextContext(ctx))
}

// count counts requests that got no answer from a server that is there and has the consumer.
func (r *reader) count(silent bool) {
	if !silent {
		r.silent = 0
		return
	}
	if r.silent++; r.silent == silentWarning {
		r.log.Warn("the server has the consumer and doesn't answer requests for its messages; going on", "requests", r.silent)
	}
}

// checkConsumer is called when the server has stopped answering a request for
// messages, or no message has come for long. The server does so without a word when
// the consumer was deleted between two requests or its limits are lower than they were, and
// jetstream would go on asking for ever.
func (r *reader) checkConsumer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.s.cfg.AckTimeout)
	defer cancel()
	consumer, err := r.s.js.Consumer(ctx, r.from.stream, r.from.durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return jetstream.ErrConsumerDeleted
	}
	if err != nil {
		return err
	}
	r.consumer = consumer
	r.look()
	return nil
}

// look tells, once, that the consumer is paused, and that it isn't any more.
func (r *reader) look() {
	info := r.consumer.CachedInfo()
	switch {
	case info.Paused && !r.paused:
		r.log.Warn("the consumer is paused; it hands out nothing until that is over", "remaining", info.PauseRemaining)
	case r.paused && !info.Paused:
		r.log.Info("the consumer is no longer paused")
	}
	r.paused = info.Paused
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
