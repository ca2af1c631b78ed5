package rabbitmq

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/runtime/internal/delivery"
)

// received is one delivery. It belongs to the channel that it came over: when that is
// gone, the broker delivers the message again, and there is nothing more to tell it.
type received struct {
	*subscription
	channel  *amqp.Channel
	delivery amqp.Delivery
	attrs    []any
}

// submit hands a delivery to the engine. One that the engine doesn't take stays
// unacknowledged, and the end of the channel gives it back.
func (s *subscription) submit(channel *amqp.Channel, d amqp.Delivery) {
	r := &received{subscription: s, channel: channel, delivery: d}
	m := delivery.Message{Deliveries: deliveries(d), Ack: r.ack, Again: r.again}
	r.attrs = []any{"delivery", m.Deliveries}
	m.Attrs = r.attrs
	e, err := decode(d)
	if err != nil {
		m.Unreadable = unreadable(d, err)
	} else {
		m.Envelope = e
	}
	s.engine.Submit(s.ctx, m)
}

func (r *received) ack(context.Context) {
	if err := r.delivery.Ack(false); err != nil {
		r.cfg.Stats.AckFailed.Add(1)
		r.log.Warn("the connection was lost before the message could be acknowledged; it is delivered again", append(r.attrs, "error", err)...)
		return
	}
	r.cfg.Stats.Acked.Add(1)
}

// again puts the message into a queue to wait, and acknowledges it once the broker has
// confirmed that. It goes on trying until then, for what the broker took back itself
// would come again at once. Other aggregates go on meanwhile. A queue that has gone ends the
// session: the next one finds out, see begin.
func (r *received) again(_ context.Context, after time.Duration) {
	if after <= 0 { // the subscription ends, see session
		return
	}
	queue := retryQueue(r.cfg.Queue, retryDelay(r.cfg.RetryDelays, after))
	for n := 1; ; n++ {
		if r.channel.IsClosed() {
			return // it is delivered again
		}
		err := r.waiting.sendOne(r.ctx, "", queue, toWait(r.delivery))
		if err == nil {
			r.settleWaiting()
			return
		}
		if errors.Is(err, ErrUnroutable) {
			r.log.Warn("the message's queue to wait in is missing; looking for it", append(r.attrs, "retry_queue", queue)...)
			_ = r.channel.Close() // another one's message may have closed it
			return
		}
		pause := backoff(r.cfg.Backoff, r.cfg.MaxBackoff, n)
		if r.ctx.Err() == nil {
			r.log.Warn("the message couldn't be put into its queue to wait; it stays here",
				append(r.attrs, "retry_queue", queue, "error", err, "again_in", pause.Round(time.Millisecond).String())...)
		}
		if !sleep(r.ctx, pause) {
			return
		}
	}
}

// settleWaiting acknowledges a message that waits. Where that gets lost, it comes twice.
func (r *received) settleWaiting() {
	if err := r.delivery.Ack(false); err != nil {
		r.cfg.Stats.AckFailed.Add(1)
	}
}
