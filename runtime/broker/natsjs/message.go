package natsjs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/runtime/internal/delivery"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// submit hands over a message for which room was taken.
func (r *reader) submit(ctx context.Context, m jetstream.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		r.log.Error("a message without JetStream's metadata; leaving it", "error", err)
		r.room.put(1)
		return
	}
	d := delivery.Message{
		Deliveries: int(min(meta.NumDelivered, 1<<30)), //nolint:gosec // bounded
		Attrs:      []any{"stream", meta.Stream, "sequence", meta.Sequence.Stream, "delivery", meta.NumDelivered},
		Ack:        func(ctx context.Context) { r.ack(ctx, m, meta); r.room.put(1) },
		Again:      func(_ context.Context, after time.Duration) { r.again(m, meta, after); r.room.put(1) },
		Alive:      func() { r.alive(m, meta) },
	}
	d.Envelope, err = decode(m.Headers(), m.Data())
	if err != nil {
		d.Unreadable = &outbox.Unreadable{
			Reference: reference(meta), Headers: flat(m.Headers()), Body: m.Data(), Reason: err,
		}
	}
	if !r.s.engine.Submit(ctx, d) {
		r.again(m, meta, 0)
		r.room.put(1)
	}
}

// reference is a message's place: stream, sequence and the time at which it was
// stored, for a stream that was deleted and made anew counts from 1 again.
func reference(meta *jetstream.MsgMetadata) string {
	return fmt.Sprintf("%s/%d/%s", meta.Stream, meta.Sequence.Stream, meta.Timestamp.UTC().Format(time.RFC3339Nano))
}

func flat(h nats.Header) map[string]string {
	headers := make(map[string]string, len(h))
	for name, values := range h {
		headers[name] = strings.Join(values, ",")
	}
	return headers
}

// ackRetry is the pause before an acknowledgement that couldn't be sent, as while
// reconnecting, is sent again.
const ackRetry = 50 * time.Millisecond

// ack acknowledges and waits for the server's answer, also when ctx, the handlers', has
// ended. Without an answer before AckTimeout, the message is delivered again after AckWait.
func (r *reader) ack(ctx context.Context, m jetstream.Msg, meta *jetstream.MsgMetadata) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.s.cfg.AckTimeout)
	defer cancel()
	for {
		err := m.DoubleAck(ctx)
		if err == nil {
			r.s.cfg.Stats.Acked.Add(1)
			return
		}
		if r.s.js.Conn().IsClosed() || !sleep(ctx, ackRetry) {
			r.s.cfg.Stats.AckFailed.Add(1)
			r.log.Warn("the event was handled, but its acknowledgement is not confirmed; it may be delivered again",
				"sequence", meta.Sequence.Stream, "error", err)
			return
		}
	}
}

func (r *reader) again(m jetstream.Msg, meta *jetstream.MsgMetadata, after time.Duration) {
	if err := m.NakWithDelay(after); err != nil {
		r.log.Warn("the message couldn't be given back; it is delivered again after AckWait",
			"sequence", meta.Sequence.Stream, "error", err)
	}
}

// alive restarts AckWait. It is called of each message again and again, so what fails
// is not worth a warning.
func (r *reader) alive(m jetstream.Msg, meta *jetstream.MsgMetadata) {
	if err := m.InProgress(); err != nil {
		r.log.Debug("can't tell the broker that the message is being worked on; it may be delivered again meanwhile",
			"sequence", meta.Sequence.Stream, "error", err)
	}
}
